-- Wakeful: the whole database, for a fresh install. `wakeful migrate` runs this file in one transaction.
--
-- The life of a job
-- -----------------
-- A producer calls wakeful.enqueue() inside its own transaction. The job becomes a row of `ready` (due now) or of
-- `scheduled` (due later; promoted to `ready` when its time has come). A daemon claims rows of `ready`: it writes its
-- instance id and a random claim token into the row, and counts the attempt. From then on every write about the job
-- carries that token, and a write whose token no longer matches changes nothing.
--
--     enqueue ──► scheduled ──due──► ready ──claim──► ready, owned (RUNNING)
--                     ▲                ▲                   │
--                     └── retry, snooze┴── due now ────────┤ fail, snooze, hand back, lost owner
--                                                          ├──► finished   DONE, CANCELLED
--                                                          └──► dead       DEAD, with a row in alert_outbox
--
-- A job's state is the table that it is in, so finished work never lies in the way of waiting work. Leaving `ready`
-- is one statement: finish_jobs.sql for a success, wakeful.depart() for everything else; DEAD is written there only,
-- in the same transaction as its alert. Requeue brings a DEAD or CANCELLED job back with its attempts at zero.
--
-- Jobs that may always be claimed together share a *lane*: queue, priority, job type, limit key and whether they are
-- suspects (lost their owner twice). Whatever forbids a claim forbids a lane, so a claim never steps over single rows.
-- lane_id is a hash of those parts, so an enqueue needs no row of `lane`.
--
-- An owner proves that it is alive by one beat an instance. An owner is dead when its beat stands still and its lease
-- is past; its rows are then taken back by any other instance. The clock of the database is the only clock.
--
-- Nothing here needs a superuser, an extension, or a server newer than PostgreSQL 14.

create schema wakeful;
comment on schema wakeful is 'Wakeful, a job daemon: enqueue with wakeful.enqueue(), look with wakeful.jobs';

-- ---------------------------------------------------------------------------------------------------------------
-- The installation
-- ---------------------------------------------------------------------------------------------------------------

create table wakeful.installation (
    only_one            boolean     not null default true,
    schema_version      integer     not null,
    breaking_version    integer     not null,
    system_identifier   text,
    finished_slot_width interval    not null default '12 hours',
    payload_limit       integer     not null default 1048576,
    subject_paths       text[]      not null default '{subject,place_id}',
    installed_at        timestamptz not null default now(),
    constraint installation_pkey primary key (only_one),
    constraint installation_only_one check (only_one)
);
comment on table wakeful.installation is 'One row: what this schema is, and the few values that must be the same for all instances';
comment on column wakeful.installation.only_one is 'Always true; makes a second row impossible';
comment on column wakeful.installation.schema_version is 'Number of the last migration applied';
comment on column wakeful.installation.breaking_version is 'A daemon whose code knows no schema of this number or newer must not run here';
comment on column wakeful.installation.system_identifier is 'The server that this installation belongs to; another one runs nothing until `wakeful adopt`';
comment on column wakeful.installation.finished_slot_width is 'Time that one of the 16 slots of `finished` takes in';
comment on column wakeful.installation.payload_limit is 'Largest payload and result, in bytes of its JSON text';
comment on column wakeful.installation.subject_paths is 'Payload paths tried for the subject of a job whose type names none';
comment on column wakeful.installation.installed_at is 'When the schema was installed';
insert into wakeful.installation (schema_version, breaking_version) values (1, 1);

create table wakeful.migration (
    version    integer     not null,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default now(),
    constraint migration_pkey primary key (version)
);
comment on table wakeful.migration is 'The migrations applied to this database, in order';
comment on column wakeful.migration.version is 'Number of the migration; the first release is 1';
comment on column wakeful.migration.name is 'File name of the migration';
comment on column wakeful.migration.checksum is 'sha256 of the file as it was applied';
comment on column wakeful.migration.applied_at is 'When it was applied';

-- ---------------------------------------------------------------------------------------------------------------
-- Jobs. The columns down to moved_by are the same in all four tables, in the same order; what a claim changes comes last, so
-- that the log takes little of the row again.
-- ---------------------------------------------------------------------------------------------------------------

create sequence wakeful.position as bigint cache 1;
comment on sequence wakeful.position is 'Order within a lane. Whoever takes a value has its transaction id first';

create table wakeful.ready (
    lane_id             bigint      not null,
    pos                 bigint      not null,
    job_id              uuid        not null,
    job_type            text        not null,
    queue               text        not null,
    priority            text        not null,
    subject             text,
    dedupe_key          text,
    payload             jsonb       not null,
    deadline            interval    not null,
    tags                text[]      not null,
    meta                jsonb       not null,
    group_key           text,
    limit_key           text,
    run_after           timestamptz not null,
    handed_back         integer     not null default 0,
    snoozed             integer     not null default 0,
    snoozed_for         interval,
    lost                integer     not null default 0,
    max_attempts        integer     not null,
    last_error          text,
    errors              jsonb,
    created_at          timestamptz not null,
    attempts            integer     not null default 0,
    run_no              integer     not null default 0,
    moved_by            bigint,
    owner               bigint,
    claim               bigint,
    started_at          timestamptz,
    deadline_at         timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason       text,
    constraint ready_pkey primary key (lane_id, pos),
    constraint ready_claimed check ((owner is null) = (claim is null))
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
comment on table wakeful.ready is 'Jobs due now, and running ones: the only hot table. No claim column may enter an index, so that a claim stays HOT';
-- Serves cancel(), job() and the view: one job by its id.
create index ready_job_id on wakeful.ready (job_id);

create table wakeful.scheduled (
    lane_id      bigint      not null,
    job_id       uuid        not null,
    job_type     text        not null,
    queue        text        not null,
    priority     text        not null,
    subject      text,
    dedupe_key   text,
    payload      jsonb       not null,
    deadline     interval    not null,
    tags         text[]      not null,
    meta         jsonb       not null,
    group_key    text,
    limit_key    text,
    run_after    timestamptz not null,
    handed_back  integer     not null default 0,
    snoozed      integer     not null default 0,
    snoozed_for  interval,
    lost         integer     not null default 0,
    max_attempts integer     not null,
    last_error   text,
    errors       jsonb,
    created_at   timestamptz not null,
    attempts     integer     not null default 0,
    run_no       integer     not null default 0,
    moved_by     bigint,
    constraint scheduled_pkey primary key (job_id)
);
comment on table wakeful.scheduled is 'Jobs due later: future runs, retries and snoozes; promoted when due';
-- Serves promote_jobs.sql and look_at_due.sql: the earliest first.
create index scheduled_run_after on wakeful.scheduled (run_after);

create table wakeful.dead (
    lane_id      bigint      not null,
    job_id       uuid        not null,
    job_type     text        not null,
    queue        text        not null,
    priority     text        not null,
    subject      text,
    dedupe_key   text,
    payload      jsonb       not null,
    deadline     interval    not null,
    tags         text[]      not null,
    meta         jsonb       not null,
    group_key    text,
    limit_key    text,
    run_after    timestamptz not null,
    handed_back  integer     not null,
    snoozed      integer     not null,
    snoozed_for  interval    not null,
    lost         integer     not null,
    max_attempts integer     not null,
    last_error   text,
    errors       jsonb       not null,
    created_at   timestamptz not null,
    attempts     integer     not null,
    run_no       integer     not null,
    moved_by     bigint,
    cause        text        not null,
    instance_id  bigint,
    started_at   timestamptz,
    finished_at  timestamptz not null,
    constraint dead_pkey primary key (job_id)
);
comment on table wakeful.dead is 'Dead letters, kept until requeued or pruned';
-- Serves prune_dead.sql and the lists: the oldest first.
create index dead_finished_at on wakeful.dead (finished_at);

create table wakeful.finished (
    slot         smallint    not null,
    lane_id      bigint,
    job_id       uuid        not null,
    job_type     text        not null,
    queue        text        not null,
    priority     text        not null,
    subject      text,
    dedupe_key   text,
    payload      jsonb       not null,
    deadline     interval,
    tags         text[],
    meta         jsonb,
    group_key    text,
    limit_key    text,
    run_after    timestamptz,
    handed_back  integer,
    snoozed      integer,
    snoozed_for  interval,
    lost         integer,
    max_attempts integer     not null,
    last_error   text,
    errors       jsonb,
    created_at   timestamptz not null,
    attempts     integer     not null,
    run_no       integer     not null,
    moved_by     bigint,
    status       text        not null,
    result       jsonb,
    degraded     text[],
    instance_id  bigint,
    started_at   timestamptz,
    finished_at  timestamptz not null,
    constraint finished_pkey primary key (job_id, slot),
    constraint finished_status check (status in ('DONE', 'CANCELLED'))
) partition by list (slot);
comment on table wakeful.finished is 'DONE and CANCELLED jobs: a fixed ring of 16 slots by time, each emptied by TRUNCATE; no DDL at run time. DONE has null where nearly every job has the same; the view jobs puts it back';
-- Serves expire_finished(): is a row too young in this slot?
create index finished_finished_at on wakeful.finished using brin (finished_at) with (pages_per_range = 16);
do $$
begin
    for slot in 0..15 loop
        execute format('create table wakeful.finished_%s partition of wakeful.finished for values in (%s)', slot, slot);
        execute format('comment on table wakeful.finished_%s is %L', slot, format('Slot %s of the ring of finished jobs', slot));
    end loop;
end
$$;

create table wakeful.dedupe (
    key    text not null,
    job_id uuid not null,
    constraint dedupe_pkey primary key (key)
);
comment on table wakeful.dedupe is 'Active dedupe keys: a key is taken while its job waits or runs, and free once the job has ended';
comment on column wakeful.dedupe.key is 'The key, as the producer gave it';
comment on column wakeful.dedupe.job_id is 'The active job that holds the key';

create table wakeful.progress (
    job_id     uuid        not null,
    run_no     integer     not null,
    document   jsonb       not null,
    updated_at timestamptz not null default now(),
    constraint progress_pkey primary key (job_id)
) with (fillfactor = 70);
comment on table wakeful.progress is 'Steps and progress of a job, the latest run wins; written by the current claim only';
comment on column wakeful.progress.job_id is 'The job';
comment on column wakeful.progress.run_no is 'The run that wrote it; a lower one never overwrites';
comment on column wakeful.progress.document is '{"attempt": n, "steps": [{"name", "status", "started_at", "finished_at", "percent", "message", "error"}]}';
comment on column wakeful.progress.updated_at is 'When it was written';

create table wakeful.job_log (
    job_id    uuid        not null,
    run_no    integer     not null,
    line_no   integer     not null,
    logged_at timestamptz not null,
    level     text        not null,
    message   text        not null,
    constraint job_log_pkey primary key (job_id, run_no, line_no)
);
comment on table wakeful.job_log is 'The last 100 log lines of each attempt';
comment on column wakeful.job_log.job_id is 'The job';
comment on column wakeful.job_log.run_no is 'The run that logged the line';
comment on column wakeful.job_log.line_no is 'Order within the run';
comment on column wakeful.job_log.logged_at is 'When it was logged';
comment on column wakeful.job_log.level is 'debug, info, warning, error or critical';
comment on column wakeful.job_log.message is 'The line, cleaned and bounded';

do $$
declare
    described record;
begin
    for described in
        select c.table_name, c.column_name, d.note
        from information_schema.columns c
        join (values
            ('lane_id', 'Hash of queue, priority, job type, limit key and suspect flag: jobs that may always be claimed together'),
            ('pos', 'Order within the lane; a released job gets a new one'),
            ('job_id', 'UUIDv7 of the job'),
            ('job_type', 'Selects the handler'),
            ('queue', 'The queue that it waits in'),
            ('priority', 'interactive, normal or batch'),
            ('subject', 'What the job is about, such as a place id'),
            ('dedupe_key', 'At most one active job has this key'),
            ('payload', 'What the handler is given: a JSON object'),
            ('max_attempts', 'DEAD when as many attempts have failed'),
            ('deadline', 'Longest time that one attempt may run'),
            ('tags', 'Labels given by the producer'),
            ('meta', 'What the producer wants carried along, such as a traceparent'),
            ('group_key', 'Fair share among groups; kept for a later feature'),
            ('limit_key', 'The limit that the job counts against; part of the lane'),
            ('run_after', 'Not claimable before this time'),
            ('attempts', 'Attempts that count: those handed back, snoozed or lost are returned'),
            ('run_no', 'Claims so far; only grows, so that outside systems can fence with it'),
            ('handed_back', 'Times that a stopping daemon gave it back'),
            ('snoozed', 'Times that it asked to run later'),
            ('snoozed_for', 'Time that it asked to wait in all; bounded. Null: none'),
            ('lost', 'Times that its owner died'),
            ('last_error', 'Why the last attempt failed'),
            ('errors', 'The last ten failures: at, attempt, run_no, type, message, traceback. Null: none'),
            ('created_at', 'When it was enqueued'),
            ('moved_by', 'Token of the owner whose own write put the row here; null where the reaper, an operator or a duty did'),
            ('owner', 'Instance that runs it; null: waiting'),
            ('claim', 'Token of the claim: every write about a running job carries it'),
            ('started_at', 'When the last claim was made'),
            ('deadline_at', 'When the running attempt is over its deadline'),
            ('cancel_requested_at', 'When its cancellation was asked for while it ran; every way out of ready obeys it'),
            ('cancel_reason', 'Why, as the first said who gave a reason; last_error at the end'),
            ('cause', 'Why it died: attempts, refused, lost, …'),
            ('instance_id', 'The instance that ran it last'),
            ('finished_at', 'When it ended'),
            ('slot', 'Slot of the ring: epoch / installation.finished_slot_width mod 16'),
            ('status', 'DONE or CANCELLED'),
            ('result', 'What the handler returned'),
            ('degraded', 'With what less the handler made do')
        ) as d (column_name, note) on d.column_name = c.column_name
        where c.table_schema = 'wakeful' and c.table_name in ('ready', 'scheduled', 'dead', 'finished')
    loop
        execute format('comment on column wakeful.%I.%I is %L', described.table_name, described.column_name, described.note);
    end loop;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------
-- Queues, lanes, job types, instances, duties
-- ---------------------------------------------------------------------------------------------------------------

create table wakeful.queue (
    name      text        not null,
    paused_at timestamptz,
    paused_by text,
    reason    text,
    constraint queue_pkey primary key (name)
);
comment on table wakeful.queue is 'What operators decided about a queue; a queue without a row is simply open';
comment on column wakeful.queue.name is 'Name of the queue';
comment on column wakeful.queue.paused_at is 'Since when nothing is claimed from it; null: open';
comment on column wakeful.queue.paused_by is 'Who paused it';
comment on column wakeful.queue.reason is 'Why it is paused';

create table wakeful.lane (
    lane_id        bigint      not null,
    queue          text        not null,
    priority       text        not null,
    job_type       text        not null,
    limit_key      text,
    suspect        boolean     not null,
    closed         boolean     not null default false,
    hot_until      timestamptz not null default '-infinity',
    unserved_since timestamptz,
    first_seen     timestamptz not null default now(),
    constraint lane_pkey primary key (lane_id)
) with (fillfactor = 50);
comment on table wakeful.lane is 'What a lane id stands for. Correctness needs no row here: an unknown lane is simply open and cold';
comment on column wakeful.lane.lane_id is 'wakeful.lane_id() of the parts';
comment on column wakeful.lane.queue is 'Queue of its jobs';
comment on column wakeful.lane.priority is 'Priority of its jobs';
comment on column wakeful.lane.job_type is 'Type of its jobs';
comment on column wakeful.lane.limit_key is 'Limit that its jobs count against';
comment on column wakeful.lane.suspect is 'Its jobs lost their owner twice or more: an instance runs one of them at a time';
comment on column wakeful.lane.closed is 'Nothing may be claimed from it now';
comment on column wakeful.lane.hot_until is 'Daemons poll it until then, so that enqueue need not notify; compared with clock_timestamp()';
comment on column wakeful.lane.unserved_since is 'Since when no live instance serves its job type';
comment on column wakeful.lane.first_seen is 'When it was first folded in';

create table wakeful.lane_seen (
    lane_id   bigint  not null,
    queue     text    not null,
    priority  text    not null,
    job_type  text    not null,
    limit_key text,
    suspect   boolean not null
);
comment on table wakeful.lane_seen is 'Lanes that an enqueue met for the first time: append-only without a unique key, so that no producer waits for another; folded into lane';
comment on column wakeful.lane_seen.lane_id is 'As in lane';
comment on column wakeful.lane_seen.queue is 'As in lane';
comment on column wakeful.lane_seen.priority is 'As in lane';
comment on column wakeful.lane_seen.job_type is 'As in lane';
comment on column wakeful.lane_seen.limit_key is 'As in lane';
comment on column wakeful.lane_seen.suspect is 'As in lane';
-- Serves enqueue() and enqueue_many(): is this lane noted already?
create index lane_seen_lane_id on wakeful.lane_seen (lane_id);

create table wakeful.job_type (
    job_type     text        not null,
    hash         text        not null,
    queue        text        not null,
    priority     text        not null,
    max_attempts integer     not null,
    deadline     interval    not null,
    lease        interval    not null,
    subject_path text,
    secret_paths text[]      not null,
    limit_key    text,
    job_owner    text,
    history      boolean     not null,
    steps        text[]      not null,
    in_force_at  timestamptz not null default now(),
    constraint job_type_pkey primary key (job_type)
);
comment on table wakeful.job_type is 'The declaration in force for each job type: what an enqueue in plain SQL takes its defaults from';
comment on column wakeful.job_type.job_type is 'Name of the type';
comment on column wakeful.job_type.hash is 'Hash of the declaration in force';
comment on column wakeful.job_type.queue is 'Default queue';
comment on column wakeful.job_type.priority is 'Default priority';
comment on column wakeful.job_type.max_attempts is 'Default attempts';
comment on column wakeful.job_type.deadline is 'Default deadline of one attempt';
comment on column wakeful.job_type.lease is 'How long an owner may be silent before its jobs of this type are taken back';
comment on column wakeful.job_type.subject_path is 'Payload path of the subject, parts joined by dots';
comment on column wakeful.job_type.secret_paths is 'Payload paths that are never shown';
comment on column wakeful.job_type.limit_key is 'Default limit key';
comment on column wakeful.job_type.job_owner is 'Who looks after jobs of this type';
comment on column wakeful.job_type.history is 'Whether finished jobs are kept';
comment on column wakeful.job_type.steps is 'Declared steps';
comment on column wakeful.job_type.in_force_at is 'When this declaration came into force';

create table wakeful.job_type_declaration (
    job_type    text        not null,
    hash        text        not null,
    declaration jsonb       not null,
    first_seen  timestamptz not null default clock_timestamp(),
    constraint job_type_declaration_pkey primary key (job_type, hash)
);
comment on table wakeful.job_type_declaration is 'Every declaration that an instance published. In force is the newest first_seen that a live instance publishes, else the last in force';
comment on column wakeful.job_type_declaration.job_type is 'Name of the type';
comment on column wakeful.job_type_declaration.hash is 'Hash of the declaration';
comment on column wakeful.job_type_declaration.declaration is 'The columns of job_type, as an object; deadline and lease in seconds';
comment on column wakeful.job_type_declaration.first_seen is 'When it was first published; a restart of an old version does not renew it';

create sequence wakeful.instance_number as bigint cache 1;
comment on sequence wakeful.instance_number is 'Ids of instances; never used again';

create table wakeful.instance (
    instance_id bigint      not null default nextval('wakeful.instance_number'),
    incarnation bigint      not null,
    name        text        not null,
    host        text        not null,
    pid         integer     not null,
    version     text        not null,
    state       text        not null default 'live',
    lease       interval    not null,
    every_type  boolean     not null default false,
    serves      jsonb       not null default '{}',
    queues      text[]      not null default '{*}',
    sinks       text[]      not null default '{}',
    critical_types text[]   not null default '{}',
    rules       text        not null default '',
    started_at  timestamptz not null default now(),
    beat_at     timestamptz not null default clock_timestamp(),
    beat_seq    bigint      not null default 0,
    deaf_for    double precision,
    blocked_for double precision,
    blocked_by  text,
    clock_ahead double precision,
    free_workers integer,
    swept       integer     not null default 0,
    swept_beat  bigint,
    swept_past  integer     not null default 0,
    constraint instance_pkey primary key (instance_id),
    constraint instance_state check (state in ('live', 'draining', 'dead'))
) with (fillfactor = 50);
alter sequence wakeful.instance_number owned by wakeful.instance.instance_id;
comment on table wakeful.instance is 'One row a daemon process: the holder of the lease of all the jobs that it runs';
comment on column wakeful.instance.instance_id is 'Number of the instance, never used again';
comment on column wakeful.instance.incarnation is 'Random; each beat and claim checks it, since a sequence can go backwards in a crash';
comment on column wakeful.instance.name is 'Name for people';
comment on column wakeful.instance.host is 'Host that it runs on';
comment on column wakeful.instance.pid is 'Process id there';
comment on column wakeful.instance.version is 'Version of Wakeful';
comment on column wakeful.instance.state is 'live, draining (claims nothing new) or dead (deposed: its rows are being taken back)';
comment on column wakeful.instance.lease is 'The longest lease among the types that it serves';
comment on column wakeful.instance.every_type is 'Claims lanes of every type, also of those that it has no handler for';
comment on column wakeful.instance.serves is 'Job types that it serves, each with the hash of its declaration';
comment on column wakeful.instance.queues is 'Queues that it serves; * for all';
comment on column wakeful.instance.sinks is 'Sinks that it is configured with';
comment on column wakeful.instance.critical_types is 'Job types of which its settings want the first failed attempt told';
comment on column wakeful.instance.rules is 'Hash of its settings of the alert rules, so that instances with others end no alert of these';
comment on column wakeful.instance.started_at is 'When it registered';
comment on column wakeful.instance.beat_at is 'When it last proved that it is alive';
comment on column wakeful.instance.beat_seq is 'Counts beats; a reaper watches whether it moves';
comment on column wakeful.instance.deaf_for is 'Reported with the beat: seconds for which its listener had heard nothing; null: it listens';
comment on column wakeful.instance.blocked_for is 'Reported with the beat: the longest standstill of its event loop within five minutes, in seconds; null: none of half a second';
comment on column wakeful.instance.blocked_by is 'Type of the job whose handler blocked it then, where that is known';
comment on column wakeful.instance.clock_ahead is 'Reported with the beat: seconds that its clock is at least ahead of the database''s, negative: behind; null: less than half a second';
comment on column wakeful.instance.free_workers is 'Reported with the beat: jobs that it could start at once';
comment on column wakeful.instance.swept is 'Passes over ready that found nothing of this dead instance; its row goes after two';
comment on column wakeful.instance.swept_beat is 'The beat that it stood still at when a pass over ready was last made for it while it was only silent';
comment on column wakeful.instance.swept_past is 'How many of its leases were past then';

create table wakeful.duty (
    name    text        not null,
    next_at timestamptz not null default '-infinity',
    constraint duty_pkey primary key (name)
);
comment on table wakeful.duty is 'What should happen once in a fleet: whoever moves next_at on does it, without a leader';
comment on column wakeful.duty.name is 'Name of the duty';
comment on column wakeful.duty.next_at is 'When it is next due';

-- ---------------------------------------------------------------------------------------------------------------
-- Alerts and the audit
-- ---------------------------------------------------------------------------------------------------------------

create table wakeful.alert (
    alert_id    bigint      generated always as identity,
    dedupe_key  text        not null,
    kind        text        not null,
    job_type    text,
    fingerprint text,
    title       text        not null,
    severity    text        not null,
    subject     text,
    body        jsonb       not null,
    job_id      uuid,
    occurrences bigint      not null,
    first_seen  timestamptz not null,
    last_seen   timestamptz not null,
    lasting     boolean     not null default false,
    state       text        not null default 'open',
    opened_at   timestamptz not null default now(),
    acknowledged_at timestamptz,
    acknowledged_by text,
    resolved_at timestamptz,
    resolved_reason text,
    look_at     timestamptz default now(),
    untold      integer     not null default 0,
    constraint alert_pkey primary key (alert_id),
    constraint alert_state check (state in ('open', 'acknowledged', 'resolved')),
    constraint alert_severity check (severity in ('info', 'warning', 'error', 'critical'))
);
comment on table wakeful.alert is 'What people are told of: rows of alert_outbox with one key, folded into one open alert and counted';
comment on column wakeful.alert.alert_id is 'Number of the alert';
comment on column wakeful.alert.dedupe_key is 'Key that its occurrences share';
comment on column wakeful.alert.kind is 'What happened, such as job_dead';
comment on column wakeful.alert.job_type is 'Type of the job, if it is about one';
comment on column wakeful.alert.fingerprint is 'Bounded summary of the cause';
comment on column wakeful.alert.title is 'One line for people';
comment on column wakeful.alert.severity is 'info, warning, error or critical';
comment on column wakeful.alert.subject is 'What it is about; null: its occurrences are about several things, or none';
comment on column wakeful.alert.body is 'Details of the latest occurrence';
comment on column wakeful.alert.job_id is 'The latest job concerned';
comment on column wakeful.alert.occurrences is 'How often it happened';
comment on column wakeful.alert.first_seen is 'First occurrence';
comment on column wakeful.alert.last_seen is 'Latest occurrence';
comment on column wakeful.alert.lasting is 'A condition that a rule watches: resolved when it has ended, not for being quiet; last_seen is when it last held';
comment on column wakeful.alert.state is 'open, acknowledged or resolved';
comment on column wakeful.alert.opened_at is 'When it was opened, which may be later than its first occurrence';
comment on column wakeful.alert.acknowledged_at is 'When somebody took it on';
comment on column wakeful.alert.acknowledged_by is 'Who did';
comment on column wakeful.alert.resolved_at is 'When it ended';
comment on column wakeful.alert.resolved_reason is 'Why it counts as ended';
comment on column wakeful.alert.look_at is 'When there may next be something to say about it; null: never again';
comment on column wakeful.alert.untold is 'How often it could not be written as a message; from the third time on, without its details';
-- Serves fold_alerts.sql and raise_conditions.sql: at most one alert of a key is not resolved, and one that a rule watches.
create unique index alert_unresolved on wakeful.alert (dedupe_key, lasting) where state <> 'resolved';
-- Serves take_alerts.sql and look_at_outbox.sql: what may have to be told.
create index alert_look on wakeful.alert (look_at) where look_at is not null;

create table wakeful.alert_outbox (
    outbox_id   bigint      generated always as identity,
    kind        text        not null,
    dedupe_key  text        not null,
    job_type    text,
    job_id      uuid,
    fingerprint text,
    title       text        not null,
    severity    text        not null,
    subject     text,
    body        jsonb       not null,
    created_at  timestamptz not null default now(),
    alert_id    bigint,
    constraint alert_outbox_pkey primary key (outbox_id),
    constraint alert_outbox_severity check (severity in ('info', 'warning', 'error', 'critical'))
);
comment on table wakeful.alert_outbox is 'What happened: append-only, one row a death (written in the transaction that kills the job) or a call of alert(); no unique key, no counter, no wait';
comment on column wakeful.alert_outbox.outbox_id is 'Number of the row';
comment on column wakeful.alert_outbox.kind is 'What happened, such as job_dead';
comment on column wakeful.alert_outbox.dedupe_key is 'Rows with one key are folded into one alert';
comment on column wakeful.alert_outbox.job_type is 'Type of the job, if it is about one';
comment on column wakeful.alert_outbox.job_id is 'The job, if it is about one';
comment on column wakeful.alert_outbox.fingerprint is 'Bounded summary of the cause';
comment on column wakeful.alert_outbox.title is 'One line for people';
comment on column wakeful.alert_outbox.severity is 'info, warning, error or critical';
comment on column wakeful.alert_outbox.subject is 'What it is about';
comment on column wakeful.alert_outbox.body is 'Details';
comment on column wakeful.alert_outbox.created_at is 'When it happened';
comment on column wakeful.alert_outbox.alert_id is 'The alert that it was folded into; null: not yet';
-- Serves fold_alerts.sql: what is not yet folded.
create index alert_outbox_unfolded on wakeful.alert_outbox (outbox_id) where alert_id is null;
-- Serves read_samples.sql, list_occurrences.sql and resolve_gone_alerts.sql: the occurrences of an alert, the latest first.
create index alert_outbox_folded on wakeful.alert_outbox (alert_id, outbox_id) where alert_id is not null;

create table wakeful.alert_notice (
    alert_id    bigint      not null,
    sink        text        not null,
    told_as     text,
    told_at     timestamptz,
    occurrences bigint      not null default 0,
    held_until  timestamptz,
    constraint alert_notice_pkey primary key (alert_id, sink),
    constraint alert_notice_alert foreign key (alert_id) references wakeful.alert (alert_id) on delete cascade
);
comment on table wakeful.alert_notice is 'What a sink has been told of an alert, or will be: so that a restart changes nothing';
comment on column wakeful.alert_notice.alert_id is 'The alert';
comment on column wakeful.alert_notice.sink is 'Name of the sink in the configuration';
comment on column wakeful.alert_notice.told_as is 'Kind of the latest message: opened, updated, reminder or resolved; null: nothing yet';
comment on column wakeful.alert_notice.told_at is 'When that message was made';
comment on column wakeful.alert_notice.occurrences is 'How many occurrences it spoke of';
comment on column wakeful.alert_notice.held_until is 'It waits for a digest, which is made from then on';

create table wakeful.alert_sink (
    sink          text        not null,
    free_at       timestamptz not null default now(),
    closed_at     timestamptz,
    closed_reason text,
    window_from   timestamptz not null default now(),
    window_cards  integer     not null default 0,
    refusals      integer     not null default 0,
    refused_since timestamptz,
    closed_address text,
    constraint alert_sink_pkey primary key (sink)
);
comment on table wakeful.alert_sink is 'What the fleet shares about a sink: its pace, its storm brake, whether it takes anything at all';
comment on column wakeful.alert_sink.sink is 'Name of the sink in the configuration';
comment on column wakeful.alert_sink.free_at is 'Nothing is sent before: its pace, or what the receiver asked for';
comment on column wakeful.alert_sink.closed_at is 'Since when nothing is sent, as the receiver is gone, or has refused too often; a restart, another address or a test that succeeds opens it';
comment on column wakeful.alert_sink.closed_reason is 'What it said';
comment on column wakeful.alert_sink.window_from is 'Beginning of the time in which cards are counted';
comment on column wakeful.alert_sink.window_cards is 'Cards made in it';
comment on column wakeful.alert_sink.refusals is 'How often in a row its address has refused whatever it was sent';
comment on column wakeful.alert_sink.refused_since is 'When that began';
comment on column wakeful.alert_sink.closed_address is 'Hash of the address that was closed, so that another one is known for one';

create table wakeful.alert_holder (
    alert_id bigint      not null,
    rules    text        not null,
    held_at  timestamptz not null default now(),
    constraint alert_holder_pkey primary key (alert_id, rules),
    constraint alert_holder_alert foreign key (alert_id) references wakeful.alert (alert_id) on delete cascade
) with (fillfactor = 50);
comment on table wakeful.alert_holder is 'By which settings of the rules a condition holds: it has ended when it holds by those of no live instance';
comment on column wakeful.alert_holder.alert_id is 'The alert of the condition';
comment on column wakeful.alert_holder.rules is 'Hash of the settings, as instance.rules has it';
comment on column wakeful.alert_holder.held_at is 'When it last held by them';

create table wakeful.rescue (
    rescue_id  bigint      generated always as identity,
    queue      text        not null,
    job_type   text        not null,
    jobs       integer     not null,
    rescued_at timestamptz not null default now(),
    constraint rescue_pkey primary key (rescue_id)
);
comment on table wakeful.rescue is 'Jobs that were taken back from owners of late: appended by whoever does it, counted and removed by the rule rescues';
comment on column wakeful.rescue.rescue_id is 'Number of the row';
comment on column wakeful.rescue.queue is 'Queue of the jobs';
comment on column wakeful.rescue.job_type is 'Their type';
comment on column wakeful.rescue.jobs is 'How many';
comment on column wakeful.rescue.rescued_at is 'When';

create table wakeful.critical_type (
    job_type text not null,
    constraint critical_type_pkey primary key (job_type)
);
comment on table wakeful.critical_type is 'Job types of which people hear at the first failed attempt: all that the settings of live instances name';
comment on column wakeful.critical_type.job_type is 'Name of the type';

create table wakeful.lane_head (
    lane_id bigint      not null,
    job_id  uuid        not null,
    since   timestamptz not null default now(),
    constraint lane_head_pkey primary key (lane_id)
);
comment on table wakeful.lane_head is 'The first waiting job of each lane whose jobs have waited for long, so that a lane that moves is told from one that stands';
comment on column wakeful.lane_head.lane_id is 'The lane';
comment on column wakeful.lane_head.job_id is 'Its first waiting job';
comment on column wakeful.lane_head.since is 'Since when it was seen to be the first';

create table wakeful.alert_mute (
    mute_id    bigint      generated always as identity,
    kind       text,
    job_type   text,
    queue      text,
    subject    text,
    until      timestamptz not null,
    reason     text        not null,
    muted_by   text        not null default session_user,
    created_at timestamptz not null default now(),
    ended_at   timestamptz,
    constraint alert_mute_pkey primary key (mute_id),
    constraint alert_mute_named check (num_nonnulls(kind, job_type, queue, subject) > 0)
);
comment on table wakeful.alert_mute is 'What nobody is told of for a while: alerts that fit everything a row names';
comment on column wakeful.alert_mute.mute_id is 'Number of the mute';
comment on column wakeful.alert_mute.kind is 'Alerts of this kind; null: of any';
comment on column wakeful.alert_mute.job_type is 'About this job type; null: about any, or none';
comment on column wakeful.alert_mute.queue is 'About this queue; null: about any, or none';
comment on column wakeful.alert_mute.subject is 'About this subject alone; null: about any, or none';
comment on column wakeful.alert_mute.until is 'Told again from then on';
comment on column wakeful.alert_mute.reason is 'Why, for everybody who wonders';
comment on column wakeful.alert_mute.muted_by is 'Who did it';
comment on column wakeful.alert_mute.created_at is 'When';
comment on column wakeful.alert_mute.ended_at is 'When it was taken back before its time';

create table wakeful.alert_delivery (
    delivery_id  uuid        not null,
    alert_id     bigint,
    sink         text        not null,
    message      text        not null default 'alert.opened',
    tells        bigint[],
    state        text        not null default 'pending',
    body         text        not null,
    attempts     integer     not null default 0,
    excused      integer     not null default 0,
    bare         boolean     not null default false,
    next_try_at  timestamptz not null default now(),
    leased_by    bigint,
    leased_until timestamptz,
    last_answer  text,
    created_at   timestamptz not null default now(),
    delivered_at timestamptz,
    constraint alert_delivery_pkey primary key (delivery_id),
    constraint alert_delivery_alert foreign key (alert_id) references wakeful.alert (alert_id) on delete cascade,
    constraint alert_delivery_state check (state in ('pending', 'delivered', 'failed', 'merged'))
);
comment on table wakeful.alert_delivery is 'One message to one sink: the same id and the same bytes at every try';
comment on column wakeful.alert_delivery.delivery_id is 'Stable id, sent with every try, so that a receiver can notice a repeat';
comment on column wakeful.alert_delivery.alert_id is 'The alert; null: a digest of several';
comment on column wakeful.alert_delivery.sink is 'Name of the sink in the configuration';
comment on column wakeful.alert_delivery.message is 'Type of the message, such as alert.opened';
comment on column wakeful.alert_delivery.tells is 'The alerts that a digest tells of: what follows about one of them is made when it is settled';
comment on column wakeful.alert_delivery.state is 'pending, delivered, failed (given up) or merged (told in a digest instead)';
comment on column wakeful.alert_delivery.body is 'What is sent, fixed when the delivery is made';
comment on column wakeful.alert_delivery.attempts is 'Tries so far; the number of a try is the token of its lease, so it never goes down';
comment on column wakeful.alert_delivery.excused is 'How many of them do not count, as nothing was refused that could have been taken';
comment on column wakeful.alert_delivery.bare is 'Its details could not be rendered, or were refused: it says so, and little else';
comment on column wakeful.alert_delivery.next_try_at is 'Not tried before';
comment on column wakeful.alert_delivery.leased_by is 'Instance that is sending it';
comment on column wakeful.alert_delivery.leased_until is 'Until when nobody else may send it';
comment on column wakeful.alert_delivery.last_answer is 'What the receiver said last, shortened';
comment on column wakeful.alert_delivery.created_at is 'When it was made';
comment on column wakeful.alert_delivery.delivered_at is 'When the receiver accepted it';
-- Serves lease_deliveries.sql and look_at_outbox.sql: what is due for one sink.
create index alert_delivery_due on wakeful.alert_delivery (sink, next_try_at) where state = 'pending';
-- Serves read_notices.sql, and keeps the order of an alert's messages: the next is made when the one before has been settled.
create unique index alert_delivery_turn on wakeful.alert_delivery (alert_id, sink) where state = 'pending';
-- Serves show_alert.sql, and the removal of an alert with its messages.
create index alert_delivery_alert_id on wakeful.alert_delivery (alert_id, created_at);

create table wakeful.audit (
    audit_id    bigint      generated always as identity,
    happened_at timestamptz not null default now(),
    actor       text        not null default session_user,
    application text        not null default current_setting('application_name'),
    action      text        not null,
    object      text        not null,
    detail      jsonb       not null default '{}',
    constraint audit_pkey primary key (audit_id)
);
comment on table wakeful.audit is 'Who did what by hand: append-only';
comment on column wakeful.audit.audit_id is 'Number of the entry';
comment on column wakeful.audit.happened_at is 'When';
comment on column wakeful.audit.actor is 'Database user';
comment on column wakeful.audit.application is 'application_name of the session';
comment on column wakeful.audit.action is 'cancel, requeue, pause, resume, adopt';
comment on column wakeful.audit.object is 'Job id or queue';
comment on column wakeful.audit.detail is 'What else was said';

-- ---------------------------------------------------------------------------------------------------------------
-- Small functions that the others stand on
-- ---------------------------------------------------------------------------------------------------------------

create function wakeful.uuid7_with(random text) returns uuid
language sql volatile parallel safe as $$
    select (overlay(lpad(to_hex((date_part('epoch', clock_timestamp()) * 4096000)::bigint), 15, '0') placing '7' from 13 for 0)
            || random)::uuid
$$;
comment on function wakeful.uuid7_with(text) is 'A UUIDv7 of the time, in 48 bits of milliseconds and 12 of their parts, and of 16 digits: the variant and what is random';

create function wakeful.uuid7() returns uuid
language sql volatile parallel safe as $$
    select wakeful.uuid7_with(substr(gen_random_uuid()::text, 20))
$$;
comment on function wakeful.uuid7() is 'A UUIDv7: 60 bits of time, the rest random. PostgreSQL''s own, where it has one';
do $$
begin
    if to_regprocedure('pg_catalog.uuidv7' || '()') is not null then
        execute format('create or replace function wakeful.uuid7() returns uuid language sql volatile parallel safe as %L',
                       'select pg_catalog.' || 'uuidv7' || '()');
    end if;
end
$$;

-- Stable, not immutable, as convert_to() is: only so can the planner put it in the place of its call.
create function wakeful.lane_id(queue text, priority text, job_type text, limit_key text, suspect boolean) returns bigint
language sql stable parallel safe as $$
    select ('x' || encode(substring(sha256(convert_to(format(
        '%s:%s,%s:%s,%s:%s,%s,%s', octet_length(queue), queue, octet_length(priority), priority, octet_length(job_type), job_type,
        coalesce(octet_length(limit_key) || ':' || limit_key, '-'), case when suspect then 'suspect' end),
        'UTF8')) from 1 for 8), 'hex'))::bit(64)::bigint
$$;
comment on function wakeful.lane_id(text, text, text, text, boolean) is 'First 8 bytes of sha256 over the parts, each with its length: stable over versions and servers';

create function wakeful.finished_slot(at timestamptz) returns smallint
language sql stable parallel safe as $$
    select mod(floor(extract(epoch from at) / extract(epoch from finished_slot_width))::bigint, 16)::smallint
    from wakeful.installation
$$;
comment on function wakeful.finished_slot(timestamptz) is 'Slot of the ring of finished jobs that a time falls into';

create function wakeful.backoff(attempts integer) returns interval
language sql volatile parallel safe as $$
    select make_interval(secs => least(600, 5 * 2 ^ least(greatest(attempts, 1) - 1, 10)) * (1 - 0.2 * random()))
$$;
comment on function wakeful.backoff(integer) is 'Delay after an attempt that failed without a handler: 5 s doubling to 600 s, less up to 20 % of jitter';

create function wakeful.with_error(errors jsonb, entry jsonb) returns jsonb
language sql immutable parallel safe as $$
    select case
        when entry is null then errors
        when errors is null then jsonb_build_array(entry)
        when jsonb_array_length(errors) < 10 then errors || jsonb_build_array(entry)
        else (select jsonb_agg(e.value order by e.n)
              from jsonb_array_elements(errors || jsonb_build_array(entry)) with ordinality as e (value, n)
              where e.n > jsonb_array_length(errors) - 9)
    end
$$;
comment on function wakeful.with_error(jsonb, jsonb) is 'The error history with one entry more, of which the last ten are kept';

create function wakeful.redacted(payload jsonb, secret_paths text[]) returns jsonb
language plpgsql immutable parallel safe as $$
declare
    secret text;
begin
    foreach secret in array coalesce(secret_paths, '{}') loop
        if payload #> string_to_array(secret, '.') is not null then
            payload := jsonb_set(payload, string_to_array(secret, '.'), '"[secret]"');
        end if;
    end loop;
    return payload;
end
$$;
comment on function wakeful.redacted(jsonb, text[]) is 'The payload with the values at the secret paths replaced';

create function wakeful.first_subject(payload jsonb, paths text[]) returns text
language plpgsql immutable parallel safe as $$
declare
    path text;
begin
    foreach path in array paths loop
        if jsonb_typeof(payload #> string_to_array(path, '.')) in ('string', 'number') then
            return left(payload #>> string_to_array(path, '.'), 500);
        end if;
    end loop;
    return null;
end
$$;
comment on function wakeful.first_subject(jsonb, text[]) is 'The text or number at the first of the paths that holds one';

create function wakeful.payload_subject(payload jsonb, subject_path text, fallback_paths text[]) returns text
language sql stable parallel safe as $$
    select case
        when payload ?| fallback_paths or subject_path is not null or fallback_paths::text like '%.%' then
            wakeful.first_subject(payload, subject_path || fallback_paths)
    end
$$;
comment on function wakeful.payload_subject(jsonb, text, text[]) is 'The subject of a job: at the path of its type, else at the first of the fallback paths that holds a text or a number';

create function wakeful.notify_lanes(lanes bigint[]) returns void
language plpgsql as $$
begin
    perform pg_notify('wakeful', s.lane_id::text)
    from (select distinct u.lane_id from unnest(lanes) as u (lane_id)) as s
    where coalesce((select l.hot_until from wakeful.lane l where l.lane_id = s.lane_id) <= clock_timestamp(), true);
end
$$;
comment on function wakeful.notify_lanes(bigint[]) is 'Wake the daemons for these lanes, except for hot ones, which are polled: NOTIFY takes a lock on the whole database at commit';

create function wakeful.cool_lanes(lanes bigint[]) returns void
language sql as $$
    with hot as materialized (
        select l.lane_id
        from wakeful.lane l
        where l.lane_id = any (cool_lanes.lanes) and l.hot_until > clock_timestamp()
        order by l.lane_id
        for no key update skip locked
    ),
    cooled as (
        update wakeful.lane l
        set hot_until = clock_timestamp()
        from hot h
        where l.lane_id = h.lane_id
        returning l.lane_id
    )
    select pg_notify('wakeful', c.lane_id::text) from cooled c
$$;
comment on function wakeful.cool_lanes(bigint[]) is 'Take the hot marks of these lanes back and wake the daemons for those that had one: whoever polled them does so no more. Skips what is locked; its mark runs out';

create type wakeful.fault as (sqlstate text, message text, hint text);
comment on type wakeful.fault is 'What is wrong with the input of a public function; null: nothing';

create function wakeful.name_fault(what text, value text, limit_bytes integer) returns wakeful.fault
language sql immutable parallel safe as $$
    select case
        when value = '' then
            row ('WK001', what || ' is empty', 'Give a name, or leave the option out.')::wakeful.fault
        when octet_length(value) > limit_bytes then
            row ('WK001', what || ' is ' || octet_length(value)::text || ' bytes long; the limit is ' || limit_bytes::text,
                 'Shorten it; long text belongs in the payload.')::wakeful.fault
        when value ~ '[[:cntrl:]]' then
            row ('WK001', what || ' contains a control character', 'Remove line breaks, tabs and the like.')::wakeful.fault
    end
$$;
comment on function wakeful.name_fault(text, text, integer) is 'What is wrong with a name, or null';

create function wakeful.option_fault(
    job_type text, payload jsonb, queue text, priority text, subject text, dedupe_key text, run_after timestamptz,
    max_attempts integer, deadline interval, tags text[], meta jsonb, group_key text, limit_key text, payload_limit integer
) returns wakeful.fault
language plpgsql stable parallel safe as $$
declare
    names text := concat_ws('', job_type, queue, subject, dedupe_key, group_key, limit_key);
begin
    if job_type is null then
        return row ('WK001', 'job_type is null', 'Name the job type: wakeful.enqueue(''COLLECT'', ...).')::wakeful.fault;
    elsif payload is null or jsonb_typeof(payload) <> 'object' then
        return row ('WK002', 'payload is ' || coalesce('a JSON ' || jsonb_typeof(payload), 'null') || ', not a JSON object',
                'Wrap the value: {"value": ...}.')::wakeful.fault;
    elsif octet_length(payload::text) > payload_limit then
        return row ('WK003', 'payload is ' || octet_length(payload::text) || ' bytes of JSON; the limit is ' || payload_limit,
                'Store the data elsewhere and put a reference into the payload.')::wakeful.fault;
    elsif num_nonnulls(priority, run_after, max_attempts, deadline, tags, meta) = 0 then
        null;  -- Each condition that is looked at costs, and most calls give none of these.
    elsif priority not in ('interactive', 'normal', 'batch') then
        return row ('WK004', 'unknown priority "' || left(priority, 100) || '"', 'Use interactive, normal or batch.')::wakeful.fault;
    elsif not isfinite(run_after) or run_after > now() + interval '10 years' then
        return row ('WK005', 'run_after is ' || run_after || ', which is not within ten years',
                'Give a time within ten years; a past time means now.')::wakeful.fault;
    elsif max_attempts not between 1 and 1000 then
        return row ('WK006', 'max_attempts is ' || max_attempts, 'Use 1 to 1000.')::wakeful.fault;
    elsif extract(epoch from deadline) <= 0 or extract(epoch from deadline) > 2592000 then
        return row ('WK007', 'deadline is ' || deadline, 'Give the longest time one attempt may run: more than 0, at most 30 days.')::wakeful.fault;
    elsif array_ndims(tags) > 1 or cardinality(tags) > 20 or array_position(tags, null) is not null
          or octet_length(array_to_string(tags, '')) > 2000 then
        return row ('WK008', 'tags are more than 20, or longer than 2000 bytes together, or nested, or contain null', 'Use a few short labels.')::wakeful.fault;
    elsif jsonb_typeof(meta) <> 'object' or octet_length(meta::text) > 16384 then
        return row ('WK008', 'meta is not a JSON object of at most 16384 bytes', 'Keep data in the payload; meta is for a traceparent and the like.')::wakeful.fault;
    end if;
    -- All names at once; which of them is at fault is asked only if one may be.
    if octet_length(names) > 200 or names ~ '[[:cntrl:]]'
       or '' = any (array[job_type, queue, subject, dedupe_key, group_key, limit_key]) then
        return coalesce(
            wakeful.name_fault('job_type', job_type, 200),
            wakeful.name_fault('queue', queue, 200),
            wakeful.name_fault('subject', subject, 1000),
            wakeful.name_fault('dedupe_key', dedupe_key, 1000),
            wakeful.name_fault('group', group_key, 200),
            wakeful.name_fault('limit_key', limit_key, 200));
    end if;
    return null;
end
$$;
comment on function wakeful.option_fault(text, jsonb, text, text, text, text, timestamptz, integer, interval, text[], jsonb, text, text, integer)
    is 'The first thing that is wrong with the options of an enqueue, or null';

create function wakeful.refuse(fault wakeful.fault) returns void
language plpgsql as $$
begin
    raise exception using errcode = fault.sqlstate, message = 'wakeful: ' || fault.message, hint = fault.hint;
end
$$;
comment on function wakeful.refuse(wakeful.fault) is 'Raise a fault as an error of class WK';

-- ---------------------------------------------------------------------------------------------------------------
-- Claiming
-- ---------------------------------------------------------------------------------------------------------------

-- A plan made while the table was empty is kept, and would walk through a million rows a minute later: so the ways in that
-- no statistics can make right are closed. The rows are then found by their ids alone: beside a lane there would be a choice.
create function wakeful.claim(
    lane bigint, most bigint, claimer bigint, incarnation bigint, token bigint, after bigint, queue_name text
) returns setof wakeful.ready
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set plan_cache_mode = force_generic_plan as $$
begin
    return query
    with due as materialized (
        select r.ctid as row_id
        from wakeful.ready r
        where r.lane_id = claim.lane
          and r.pos > claim.after
          and coalesce(r.owner < 0, true)
          and exists (
              select from wakeful.instance i
              where i.instance_id = claim.claimer and i.incarnation = claim.incarnation and i.state = 'live')
          and not exists (select from wakeful.queue q where q.name = claim.queue_name and q.paused_at is not null)
          and not exists (select from wakeful.lane l where l.lane_id = claim.lane and l.closed)
        order by r.lane_id, r.pos
        limit claim.most
        for no key update of r skip locked
    )
    update wakeful.ready r
    set owner = claim.claimer,
        claim = claim.token,
        attempts = r.attempts + (r.attempts < 2147483647)::integer,
        run_no = r.run_no + (r.run_no < 2147483647)::integer,
        started_at = clock_timestamp(),
        deadline_at = clock_timestamp() + r.deadline
    where r.ctid = any (array(select d.row_id from due d))
    returning r.*;
end
$$;
comment on function wakeful.claim(bigint, bigint, bigint, bigint, bigint, bigint, text) is 'Give the first jobs of one lane behind a position an owner and a token, and count the attempt: a HOT update. Steps over what somebody has locked; gives nothing to an instance that is not live, and nothing of a paused queue or a closed lane';

-- ---------------------------------------------------------------------------------------------------------------
-- Leaving `ready`
-- ---------------------------------------------------------------------------------------------------------------

-- Planned with the wrong ways closed, like claim().
create function wakeful.take_out(lane bigint, positions bigint[], tokens bigint[], free_keys boolean) returns setof wakeful.ready
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with held as materialized (
        select r.row_id, r.job_id, r.dedupe_key
        from unnest(positions, tokens) as i (pos, claim)
        cross join lateral (
            select r.ctid as row_id, r.job_id, r.dedupe_key
            from wakeful.ready r
            where r.lane_id = lane and r.pos = i.pos and r.claim = i.claim
            limit 1
            for update skip locked
        ) as r
    ),
    free as materialized (
        select h.row_id, h.job_id, null::tid as key_id
        from held h
        where h.dedupe_key is null
        union all
        select h.row_id, h.job_id, k.key_id
        from held h
        left join lateral (
            select k.ctid as key_id
            from wakeful.dedupe k
            where k.key = h.dedupe_key and k.job_id = h.job_id
            limit 1
            for update skip locked
        ) as k on true
        left join lateral (
            select true as locked
            from wakeful.dedupe d
            where k.key_id is null and d.key = h.dedupe_key and d.job_id = h.job_id
            limit 1
        ) as elsewhere on true
        where h.dedupe_key is not null and elsewhere.locked is null
    ),
    gone as (
        delete from wakeful.ready r
        where r.ctid = any (array(select f.row_id from free f))
        returning r.*
    ),
    -- Only of what is gone: a row that a cancellation has changed since the snapshot is locked here, and not seen there.
    freed as (
        delete from wakeful.dedupe k
        where k.ctid = any (array(
            select f.key_id from free f
            where free_keys and f.key_id is not null and f.job_id = any (array(select g.job_id from gone g))))
    )
    select g.* from gone g;
end
$$;
comment on function wakeful.take_out(bigint, bigint[], bigint[], boolean) is 'Delete claimed rows from ready, each only where position and token match, and give them; their dedupe keys too, if they are to be free. Never waits: a row or a key that somebody else has locked is left';

create type wakeful.departure as (
    job    wakeful.ready,
    verb   text,
    reason text,
    entry  jsonb,
    delay  interval,
    token  bigint
);
comment on type wakeful.departure is 'A row that was deleted from ready, and why. verb: fail, refuse (no more attempts), lose (its owner died), unserved (nobody knows its type: a failed attempt without an owner), snooze, hand_back, put_back (never started), discard. reason becomes last_error, entry joins the error history, token becomes moved_by';

create function wakeful.depart(departures wakeful.departure[], lost_limit integer default 3)
returns table (job_id uuid, claim bigint, status text, delay_s double precision)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    -- One place decides where a job goes, and one place writes DEAD, in the transaction that writes its alert.
    return query
    with departing as (
        select (d.job).*, d.verb, d.reason, d.entry, d.token, greatest(d.delay, interval '0') as delay
        from unnest(departures) as d
    ),
    counted as (
        select
            d.*,
            case
                when d.verb = 'unserved' then least(d.attempts::bigint + 1, 2147483647)::integer
                when d.verb in ('lose', 'snooze', 'hand_back', 'put_back') then greatest(d.attempts - 1, 0)
                else d.attempts
            end as attempts_now,
            least(d.run_no::bigint + (d.verb = 'unserved')::integer, 2147483647)::integer as run_no_now,
            least(d.lost::bigint + (d.verb = 'lose')::integer, 2147483647)::integer as lost_now,
            least(d.snoozed::bigint + (d.verb = 'snooze')::integer, 2147483647)::integer as snoozed_now,
            case when d.verb = 'snooze' then coalesce(d.snoozed_for, interval '0') + d.delay else d.snoozed_for end as snoozed_for_now,
            least(d.handed_back::bigint + (d.verb = 'hand_back')::integer, 2147483647)::integer as handed_back_now
        from departing d
    ),
    fate as materialized (
        select
            c.*,
            case
                when c.verb = 'discard' or c.cancel_requested_at is not null then 'CANCELLED'
                when c.verb = 'refuse' then 'DEAD'
                when c.verb in ('fail', 'unserved') and c.attempts_now >= c.max_attempts then 'DEAD'
                when c.verb = 'lose' and c.lost_now >= lost_limit then 'DEAD'
                else 'PENDING'
            end as fate,
            case
                when c.cancel_reason is not null then c.cancel_reason
                when c.verb <> 'discard' and c.cancel_requested_at is not null then 'cancelled on request while it ran'
                when c.verb = 'lose' and c.lost_now >= lost_limit then 'worker lost ' || c.lost_now || ' times: ' || coalesce(c.reason, '')
                else coalesce(c.reason, c.last_error)
            end as last_error_now,
            wakeful.with_error(c.errors, c.entry || jsonb_build_object(
                'at', now(), 'attempt', greatest(c.attempts, c.attempts_now), 'run_no', c.run_no_now))
                as errors_now,
            case
                when (c.lost >= 2) = (c.lost_now >= 2) then c.lane_id
                else wakeful.lane_id(c.queue, c.priority, c.job_type, c.limit_key, c.lost_now >= 2)
            end as lane_now,
            left(coalesce(c.entry ->> 'fingerprint', c.entry ->> 'type', c.verb), 250) as mark
        from counted c
    ),
    due_now as (
        insert into wakeful.ready (
            lane_id, pos, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at, moved_by)
        select
            f.lane_now, nextval('wakeful.position'), f.job_id, f.job_type, f.queue, f.priority, f.subject, f.dedupe_key, f.payload,
            f.max_attempts, f.deadline, f.tags, f.meta, f.group_key, f.limit_key, now(), f.attempts_now, f.run_no_now,
            f.handed_back_now, f.snoozed_now, f.snoozed_for_now, f.lost_now, f.last_error_now, f.errors_now, f.created_at, f.token
        from fate f
        where f.fate = 'PENDING' and f.delay = interval '0'
    ),
    due_later as (
        insert into wakeful.scheduled (
            lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at, moved_by)
        select
            f.lane_now, f.job_id, f.job_type, f.queue, f.priority, f.subject, f.dedupe_key, f.payload, f.max_attempts, f.deadline,
            f.tags, f.meta, f.group_key, f.limit_key, clock_timestamp() + f.delay, f.attempts_now, f.run_no_now, f.handed_back_now,
            f.snoozed_now, f.snoozed_for_now, f.lost_now, f.last_error_now, f.errors_now, f.created_at, f.token
        from fate f
        where f.fate = 'PENDING' and f.delay > interval '0'
    ),
    unwanted as (
        insert into wakeful.finished (
            slot, lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at, moved_by,
            status, instance_id, started_at, finished_at)
        select
            wakeful.finished_slot(now()), f.lane_id, f.job_id, f.job_type, f.queue, f.priority, f.subject, f.dedupe_key, f.payload,
            f.max_attempts, f.deadline, f.tags, f.meta, f.group_key, f.limit_key, f.run_after, f.attempts_now, f.run_no_now,
            f.handed_back_now, f.snoozed_now, f.snoozed_for_now, f.lost_now, f.last_error_now, f.errors_now, f.created_at, f.token,
            'CANCELLED', f.owner, f.started_at, clock_timestamp()
        from fate f
        where f.fate = 'CANCELLED'
    ),
    died as (
        insert into wakeful.dead (
            lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at, moved_by,
            cause, instance_id, started_at, finished_at)
        select
            f.lane_id, f.job_id, f.job_type, f.queue, f.priority, f.subject, f.dedupe_key, f.payload, f.max_attempts, f.deadline,
            f.tags, f.meta, f.group_key, f.limit_key, f.run_after, f.attempts_now, f.run_no_now, f.handed_back_now, f.snoozed_now,
            coalesce(f.snoozed_for_now, interval '0'), f.lost_now, f.last_error_now, coalesce(f.errors_now, '[]'), f.created_at,
            f.token, case f.verb when 'lose' then 'lost' when 'refuse' then 'refused' else 'attempts' end,
            f.owner, f.started_at, clock_timestamp()
        from fate f
        where f.fate = 'DEAD'
    ),
    told as (
        insert into wakeful.alert_outbox (kind, dedupe_key, job_type, job_id, fingerprint, title, severity, subject, body)
        select
            'job_dead', 'job_dead:' || f.job_type || ':' || f.mark, f.job_type, f.job_id, f.job_type || ':' || f.mark,
            left(f.job_type || ' died: ' || coalesce(split_part(f.last_error_now, E'\n', 1), f.verb), 500),
            'error', f.subject,
            jsonb_build_object(
                'queue', f.queue, 'attempts', f.attempts_now, 'max_attempts', f.max_attempts, 'run_no', f.run_no_now,
                'lost', f.lost_now, 'last_error', left(f.last_error_now, 2000))
                || case when f.entry ? 'traceparent' then jsonb_build_object('traceparent', f.entry -> 'traceparent') else '{}' end
        from fate f
        where f.fate = 'DEAD'
        union all
        select
            'never_finishes', 'never_finishes:' || f.job_type, f.job_type, f.job_id,
            f.job_type || ':never_finishes',
            f.job_type || ' was handed back ' || f.handed_back_now || ' times and never finished',
            'warning', f.subject,
            jsonb_build_object('queue', f.queue, 'handed_back', f.handed_back_now, 'run_no', f.run_no_now)
        from fate f
        where f.fate = 'PENDING' and f.verb = 'hand_back' and f.handed_back_now = 5
        union all
        select
            'job_failed', 'job_failed:' || f.job_type || ':' || f.mark, f.job_type, f.job_id, f.job_type || ':' || f.mark,
            left(f.job_type || ' failed and runs again: ' || coalesce(split_part(f.last_error_now, E'\n', 1), f.verb), 500),
            'critical', f.subject,
            jsonb_build_object(
                'queue', f.queue, 'attempts', f.attempts_now, 'max_attempts', f.max_attempts, 'run_no', f.run_no_now,
                'last_error', left(f.last_error_now, 2000))
                || case when f.entry ? 'traceparent' then jsonb_build_object('traceparent', f.entry -> 'traceparent') else '{}' end
        from fate f
        where f.fate = 'PENDING' and f.verb in ('fail', 'unserved') and f.attempts_now = 1
          and exists (select from wakeful.critical_type c where c.job_type = f.job_type)
    ),
    freed as (
        delete from wakeful.dedupe k
        where k.ctid = any (array(
            select (select o.ctid from wakeful.dedupe o where o.key = f.dedupe_key and o.job_id = f.job_id)
            from fate f
            where f.fate in ('DEAD', 'CANCELLED') and f.dedupe_key is not null))
    )
    select f.job_id, f.claim, f.fate, extract(epoch from f.delay)::double precision
    from fate f;

    perform wakeful.notify_lanes(array(
        select wakeful.lane_id((d.job).queue, (d.job).priority, (d.job).job_type, (d.job).limit_key,
                               (d.job).lost::bigint + (d.verb = 'lose')::integer >= 2)
        from unnest(departures) as d
        where d.verb in ('fail', 'unserved', 'lose', 'snooze', 'hand_back', 'put_back')
          and coalesce(d.delay, interval '0') <= interval '0'));
end
$$;
comment on function wakeful.depart(wakeful.departure[], integer) is 'Put rows deleted from ready where they belong: ready again, scheduled, finished (CANCELLED), or dead with its alert';

create function wakeful.reclaim(
    lane bigint, positions bigint[], loser bigint, watched bigint, grace double precision, lost_limit integer)
returns table (job_id uuid, claim bigint, status text)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with owner as materialized (
        select i.beat_seq, i.beat_at, i.lease
        from wakeful.instance i
        where i.instance_id = loser and i.state in ('live', 'draining')
        for share skip locked
    ),
    held as materialized (
        select r.row_id, r.pos, r.cause
        from unnest(positions) as i (pos)
        cross join lateral (
            select r.ctid as row_id, r.pos, r.dedupe_key, r.job_id, why.cause
            from wakeful.ready r
            left join wakeful.job_type t on t.job_type = r.job_type
            cross join lateral (
                select case
                    when not exists (
                        select from wakeful.instance d where d.instance_id = loser and d.state in ('live', 'draining')) then
                        'its owner is dead'
                    when exists (
                        select from owner o
                        where o.beat_seq = watched
                          and o.beat_at + least(o.lease, coalesce(t.lease, interval '30 seconds')) < clock_timestamp()) then
                        'its owner is silent'
                    when r.deadline_at + r.deadline + make_interval(secs => grace) < clock_timestamp() then
                        'its owner does not end it, long past its deadline'
                end as cause
            ) as why
            where r.lane_id = lane and r.pos = i.pos and r.owner = loser and why.cause is not null
            limit 1
            for update of r skip locked
        ) as r
        left join lateral (
            select true as locked
            from wakeful.dedupe k
            where k.key = r.dedupe_key and k.job_id = r.job_id
            for update skip locked
        ) as k on true
        left join lateral (
            select true as locked
            from wakeful.dedupe d
            where k.locked is null and d.key = r.dedupe_key and d.job_id = r.job_id
            limit 1
        ) as elsewhere on true
        where elsewhere.locked is null
    ),
    gone as (
        delete from wakeful.ready r
        where r.ctid = any (array(select h.row_id from held h))
        returning r as job
    ),
    counted as (
        insert into wakeful.rescue (queue, job_type, jobs)
        select (g.job).queue, (g.job).job_type, count(*) from gone g group by 1, 2
    )
    select d.job_id, d.claim, d.status
    from (
        select array_agg(row (
            g.job, 'lose', said.reason, jsonb_build_object('type', 'LeaseExpired', 'message', said.reason), null, null
        )::wakeful.departure) as departures
        from gone g
        join held h on h.pos = (g.job).pos
        cross join lateral (
            select 'lease-expired reclaim: ' || h.cause || ' (instance ' || loser || coalesce(' ' || n.name, '') || ')' as reason
            from (select) as one
            left join wakeful.instance n on n.instance_id = loser
        ) as said
    ) as departing
    cross join lateral wakeful.depart(departing.departures, lost_limit) as d;
end
$$;
comment on function wakeful.reclaim(bigint, bigint[], bigint, bigint, double precision, integer) is 'Take jobs of one lane back from an owner that has lost them, as reclaim_jobs.sql says';

create function wakeful.verdicts(job_ids uuid[], tokens bigint[], lanes bigint[], positions bigint[])
returns table (n integer, verdict text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    -- No exists(): the planner may answer it from a hash of the whole table.
    return query
    select
        i.n::integer,
        coalesce(
            (select 'mine' from wakeful.ready r where r.lane_id = i.lane_id and r.pos = i.pos and r.claim = i.claim),
            (select case when r.moved_by = i.claim then 'PENDING' else 'lost' end from wakeful.ready r where r.job_id = i.job_id),
            (select case when s.moved_by = i.claim then 'PENDING' else 'lost' end from wakeful.scheduled s where s.job_id = i.job_id),
            (select case when f.moved_by = i.claim then f.status else 'lost' end from wakeful.finished f where f.job_id = i.job_id),
            (select case when d.moved_by = i.claim then 'DEAD' else 'lost' end from wakeful.dead d where d.job_id = i.job_id),
            'unknown')
    from unnest(job_ids, tokens, lanes, positions) with ordinality as i (job_id, claim, lane_id, pos, n);
end
$$;
comment on function wakeful.verdicts(uuid[], bigint[], bigint[], bigint[]) is 'What became of claimed jobs, by their number in the arrays: mine (the claim holds), PENDING, DONE, DEAD or CANCELLED (moved by this token), lost (another claim or none holds it) or unknown (no table has it)';

create function wakeful.as_ready(waiting wakeful.scheduled) returns wakeful.ready
language sql stable as $$
    select jsonb_populate_record(null::wakeful.ready, to_jsonb(waiting) || jsonb_build_object('pos', 0))
$$;
comment on function wakeful.as_ready(wakeful.scheduled) is 'A waiting row in the shape that depart() takes';

-- ---------------------------------------------------------------------------------------------------------------
-- The public API: enqueue
-- ---------------------------------------------------------------------------------------------------------------

create function wakeful.enqueue(
    job_type     text,
    payload      jsonb       default '{}',
    queue        text        default null,
    priority     text        default null,
    subject      text        default null,
    dedupe_key   text        default null,
    run_after    timestamptz default null,
    max_attempts integer     default null,
    deadline     interval    default null,
    tags         text[]      default null,
    meta         jsonb       default null,
    "group"      text        default null,
    limit_key    text        default null,
    notify       boolean     default true
) returns table (job_id uuid, created boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    job_queue       text;
    job_priority    text;
    job_limit_key   text;
    job_attempts    integer;
    job_deadline    interval;
    type_subject    text;
    other_subjects  text[];
    payload_limit   integer;
    names           text := concat_ws('|', enqueue.job_type, enqueue.queue, enqueue.subject, enqueue.dedupe_key, enqueue."group", enqueue.limit_key);
    fault           wakeful.fault;
    holder          uuid;
    lane            bigint;
    hot_until       timestamptz;
    tries           integer := 0;
begin
    select
        coalesce(enqueue.queue, t.queue, 'default'), coalesce(enqueue.priority, t.priority, 'normal'),
        coalesce(enqueue.limit_key, t.limit_key), coalesce(enqueue.max_attempts, t.max_attempts, 5),
        coalesce(enqueue.deadline, t.deadline, interval '1 hour'), t.subject_path, i.subject_paths, i.payload_limit
    into job_queue, job_priority, job_limit_key, job_attempts, job_deadline, type_subject, other_subjects, payload_limit
    from wakeful.installation i
    left join wakeful.job_type t on t.job_type = enqueue.job_type
    where i.only_one;

    -- Most calls are found sound by one look; what it leaves open is looked at one by one, at several times the price. A name
    -- that is empty shows as a "|" at an end or beside another, which few sound names have.
    if (octet_length(names) <= 200 and names !~ '[[:cntrl:]]|^\||\|\||\|$' and enqueue.job_type <> ''
        and jsonb_typeof(enqueue.payload) = 'object' and octet_length(enqueue.payload::text) <= payload_limit
        and num_nulls(enqueue.run_after, enqueue.deadline, enqueue.max_attempts, enqueue.tags, enqueue.meta) = 5
        and job_priority in ('interactive', 'normal', 'batch')) is not true then
        fault := wakeful.option_fault(
            enqueue.job_type, enqueue.payload, enqueue.queue, enqueue.priority, enqueue.subject, enqueue.dedupe_key,
            enqueue.run_after, enqueue.max_attempts, enqueue.deadline, enqueue.tags, enqueue.meta, enqueue."group",
            enqueue.limit_key, payload_limit);
        if fault is not null then
            perform wakeful.refuse(fault);
        end if;
    end if;

    job_id  := wakeful.uuid7();
    lane    := wakeful.lane_id(job_queue, job_priority, enqueue.job_type, job_limit_key, false);
    subject := coalesce(enqueue.subject, wakeful.payload_subject(enqueue.payload, type_subject, other_subjects));

    -- A taken key waits for the transaction that takes or frees it; if that one is gone, the key is ours.
    while enqueue.dedupe_key is not null loop
        insert into wakeful.dedupe (key, job_id) values (enqueue.dedupe_key, enqueue.job_id) on conflict do nothing;
        exit when found;
        select k.job_id into holder from wakeful.dedupe k where k.key = enqueue.dedupe_key;
        if found then
            job_id  := holder;
            created := false;
            return next;
            return;
        end if;
        tries := tries + 1;
        if tries >= 10 then
            perform wakeful.refuse(row ('WK011', 'dedupe key "' || enqueue.dedupe_key || '" keeps changing hands',
                                        'Call again; in REPEATABLE READ or SERIALIZABLE, in a new transaction.')::wakeful.fault);
        end if;
    end loop;

    if enqueue.run_after is null or enqueue.run_after <= clock_timestamp() then
        -- The transaction has its id before it takes a position: what the settled low water stands on.
        insert into wakeful.ready (
            lane_id, pos, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, created_at)
        values (
            lane, case when pg_current_xact_id() is not null then nextval('wakeful.position') end, enqueue.job_id, enqueue.job_type, job_queue, job_priority, enqueue.subject,
            enqueue.dedupe_key, enqueue.payload, job_attempts,
            job_deadline, coalesce(enqueue.tags, '{}'),
            coalesce(enqueue.meta, '{}'), enqueue."group", job_limit_key, clock_timestamp(), clock_timestamp())
        returning true, (select l.hot_until from wakeful.lane l where l.lane_id = lane) into created, hot_until;
        -- A hot lane is polled, so its notification is saved.
        if notify and coalesce(hot_until <= clock_timestamp(), true) then
            perform pg_notify('wakeful', lane::text);
        end if;
    else
        insert into wakeful.scheduled (
            lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, created_at)
        values (
            lane, enqueue.job_id, enqueue.job_type, job_queue, job_priority, enqueue.subject,
            enqueue.dedupe_key, enqueue.payload, job_attempts,
            job_deadline, coalesce(enqueue.tags, '{}'),
            coalesce(enqueue.meta, '{}'), enqueue."group", job_limit_key, enqueue.run_after, clock_timestamp())
        returning true, (select l.hot_until from wakeful.lane l where l.lane_id = lane) into created, hot_until;
        -- A job due later must arm a timer, hot or not, and names no lane.
        if notify and enqueue.run_after < clock_timestamp() + interval '1 minute' then
            perform pg_notify('wakeful', '');
        end if;
    end if;

    if hot_until is null then
        insert into wakeful.lane_seen (lane_id, queue, priority, job_type, limit_key, suspect)
        select lane, job_queue, job_priority, enqueue.job_type, job_limit_key, false
        where not exists (select from wakeful.lane_seen s where s.lane_id = lane);
    end if;
    return next;
end
$$;
comment on function wakeful.enqueue(text, jsonb, text, text, text, text, timestamptz, integer, interval, text[], jsonb, text, text, boolean)
    is 'Enqueue a job in the caller''s own transaction. Gives its id and whether it was created; with an active dedupe_key nothing is created and the active job is named';

create function wakeful.readable_interval(value text) returns interval
language plpgsql stable as $$
begin
    return case when value ~ '^[0-9.]+$' then make_interval(secs => value::double precision) else value::interval end;
exception when data_exception then
    return '-1 second';
end
$$;
comment on function wakeful.readable_interval(text) is 'An interval from text, or from a number of seconds; a negative one where it can''t be read. Looks, at the price of a subtransaction';

create function wakeful.interval_of(value text) returns interval
language sql stable as $$
    select case
        when value ~ '^[0-9]{1,9}([.][0-9]{1,9})?$' then make_interval(secs => value::double precision)
        when value ~ '^[0-9]{1,6} (second|minute|hour|day)s?$' then value::interval
        when value is not null then wakeful.readable_interval(value)
    end
$$;
comment on function wakeful.interval_of(text) is 'An interval from text, or from a number of seconds; a negative one where it can''t be read';

create function wakeful.readable_timestamp(value text) returns timestamptz
language plpgsql stable as $$
begin
    return value::timestamptz;
exception when data_exception then
    return 'infinity';
end
$$;
comment on function wakeful.readable_timestamp(text) is 'A time from text; infinity where it can''t be read. Looks, at the price of a subtransaction';

create function wakeful.timestamp_of(value text) returns timestamptz
language sql stable as $$
    select case
        when value ~ ('^20[0-9]{2}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)'
                      '[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$') then
            value::timestamptz
        when value is not null then wakeful.readable_timestamp(value)
    end
$$;
comment on function wakeful.timestamp_of(text) is 'A time from text; infinity where it can''t be read';

create type wakeful.batch_item as (
    ordinal integer, fault wakeful.fault, job_type text, payload jsonb, queue text, priority text, subject text, dedupe_key text,
    run_after timestamptz, max_attempts integer, deadline interval, tags text[], meta jsonb, group_key text, limit_key text,
    lane_id bigint
);
comment on type wakeful.batch_item is 'One element of enqueue_many(), read and checked';

create function wakeful.batch_items(jobs jsonb) returns setof wakeful.batch_item
language sql stable as $$
    with known (options) as (
        values ('{job_type,payload,queue,priority,subject,dedupe_key,run_after,max_attempts,deadline,tags,meta,group,limit_key}'::text[])
    ),
    -- Only what is needed later: a batch goes through several steps, and each keeps its rows.
    given as materialized (
        select
            e.n::integer as ordinal, nullif(jsonb_typeof(e.value), 'object') as no_object,
            case jsonb_typeof(e.value) when 'object' then nullif(e.value - (select k.options from known k), '{}') end as unknown,
            x.job_type, case when e.value ? 'payload' then x.payload else '{}' end as payload, x.queue, x.priority, x.subject,
            x.dedupe_key, x.run_after, wakeful.timestamp_of(x.run_after) as not_before, x.max_attempts, x.deadline,
            wakeful.interval_of(x.deadline) as longest, x.tags, x.meta, x."group", x.limit_key
        from jsonb_array_elements(jobs) with ordinality as e (value, n)
        cross join lateral jsonb_to_record(case jsonb_typeof(e.value) when 'object' then e.value else '{}' end) as x (
            job_type text, payload jsonb, queue text, priority text, subject text, dedupe_key text, run_after text,
            max_attempts text, deadline text, tags jsonb, meta jsonb, "group" text, limit_key text)
    ),
    -- Batches are of few kinds: defaults are looked up, and the lane is computed, once for each. No name is '', so it stands for null.
    kind as materialized (
        select k.*, wakeful.lane_id(k.lane_queue, k.lane_priority, k.job_type, k.lane_limit_key, false) as lane_id
        from (
            select
                d.*, coalesce(nullif(d.queue, ''), t.queue, 'default') as lane_queue,
                coalesce(nullif(d.priority, ''), t.priority, 'normal') as lane_priority,
                coalesce(nullif(d.limit_key, ''), t.limit_key) as lane_limit_key,
                coalesce(t.max_attempts, 5) as max_attempts, coalesce(t.deadline, interval '1 hour') as deadline,
                t.subject_path, i.subject_paths, i.payload_limit
            from (
                select distinct coalesce(g.job_type, '') as job_type, coalesce(g.queue, '') as queue,
                       coalesce(g.priority, '') as priority, coalesce(g.limit_key, '') as limit_key
                from given g
            ) as d
            cross join wakeful.installation i
            left join lateral (select * from wakeful.job_type t where t.job_type = d.job_type limit 1) as t on true
            where i.only_one
        ) as k
    )
    select
        g.ordinal,
        case
            when g.no_object is not null then
                row ('WK002', 'the element is a JSON ' || g.no_object || ', not an object', 'Give {"job_type": ..., "payload": {...}}.')::wakeful.fault
            when g.unknown is not null then
                row ('WK009', 'unknown option ' || left((select string_agg(o, ', ') from jsonb_object_keys(g.unknown) as o), 200), 'Known are: ' || array_to_string((select k.options from known k), ', ') || '.')::wakeful.fault
            when g.max_attempts !~ '^[0-9]{1,9}$' then
                row ('WK006', 'max_attempts is not a whole number', 'Use 1 to 1000.')::wakeful.fault
            when g.not_before = 'infinity' then
                row ('WK005', 'run_after is "' || left(g.run_after, 100) || '", which is not a time within ten years', 'Give a time with its zone, such as 2026-01-31T12:00:00Z; a past time means now.')::wakeful.fault
            when g.longest <= interval '0' then
                row ('WK007', 'deadline is "' || left(g.deadline, 100) || '"', 'Give the longest time one attempt may run, such as "10 minutes", or 600 for seconds: more than 0, at most 30 days.')::wakeful.fault
            when jsonb_typeof(g.tags) <> 'array' then
                row ('WK008', 'tags is not an array', 'Use a few short labels: ["a", "b"].')::wakeful.fault
            else wakeful.option_fault(
                g.job_type, g.payload, g.queue, g.priority, g.subject, g.dedupe_key, g.not_before, g.max_attempts::integer, g.longest,
                case when g.tags is not null then array(select jsonb_array_elements_text(g.tags)) end, g.meta, g."group", g.limit_key,
                k.payload_limit)
        end,
        g.job_type, g.payload, k.lane_queue, k.lane_priority,
        coalesce(g.subject, wakeful.payload_subject(g.payload, k.subject_path, k.subject_paths)),
        g.dedupe_key, g.not_before,
        case when g.max_attempts ~ '^[0-9]{1,9}$' then g.max_attempts::integer else k.max_attempts end,
        coalesce(g.longest, k.deadline),
        case when jsonb_typeof(g.tags) = 'array' then array(select jsonb_array_elements_text(g.tags)) else '{}' end,
        coalesce(g.meta, '{}'), g."group", k.lane_limit_key, k.lane_id
    from given g
    left join kind k
        on k.job_type = coalesce(g.job_type, '') and k.queue = coalesce(g.queue, '')
       and k.priority = coalesce(g.priority, '') and k.limit_key = coalesce(g.limit_key, '')
$$;
comment on function wakeful.batch_items(jsonb) is 'The elements of enqueue_many(), each read and checked by itself';

create function wakeful.enqueue_many(jobs jsonb, notify boolean default true)
returns table (ordinal integer, job_id uuid, created boolean, sqlstate text, message text, hint text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    random      bytea := uuid_send(gen_random_uuid());
    settled     record;
    unsettled   wakeful.batch_item;
    transaction xid8;
begin
    if jobs is null or jsonb_typeof(jobs) <> 'array' then
        perform wakeful.refuse(row ('WK002', 'jobs is not a JSON array',
                                    'Give an array of objects: [{"job_type": ..., "payload": {...}}, ...].')::wakeful.fault);
    elsif jsonb_array_length(jobs) > 50000 then
        perform wakeful.refuse(row ('WK003', 'jobs has ' || jsonb_array_length(jobs) || ' elements; the limit is 50000',
                                    'Call it once for each 50000.')::wakeful.fault);
    end if;
    -- The transaction has its id before it takes a position; keys are taken in order, so that two bulk calls can't deadlock.
    transaction := pg_current_xact_id();

    with item as materialized (
        -- One random number for the batch: the system gives them too slowly for one a job.
        select
            i.*, (i.fault).sqlstate is null as sound, case when (i.fault).sqlstate is null then i.dedupe_key end as key,
            wakeful.uuid7_with('8' || left(encode(sha256(random || int4send(i.ordinal)), 'hex'), 15)) as new_id
        from wakeful.batch_items(jobs) as i
    ),
    taken as (
        insert into wakeful.dedupe as k (key, job_id)
        select distinct on (i.key) i.key, i.new_id
        from item i
        where i.key is not null
        order by i.key, i.ordinal
        on conflict do nothing
        returning k.key, k.job_id
    ),
    decided as materialized (
        select
            i.*, t.job_id as taken_id, i.sound and coalesce(t.job_id = i.new_id, i.key is null) as accepted,
            coalesce(i.run_after <= clock_timestamp(), true) as due
        from item i
        left join taken t on t.key = i.key
    ),
    due_now as (
        insert into wakeful.ready (
            lane_id, pos, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, created_at)
        select
            d.lane_id, nextval('wakeful.position'), d.new_id, d.job_type, d.queue, d.priority, d.subject, d.dedupe_key, d.payload,
            d.max_attempts, d.deadline, d.tags, d.meta, d.group_key, d.limit_key, clock_timestamp(), clock_timestamp()
        from decided d
        where d.accepted and d.due
        order by d.ordinal
    ),
    due_later as (
        insert into wakeful.scheduled (
            lane_id, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
            group_key, limit_key, run_after, created_at)
        select
            d.lane_id, d.new_id, d.job_type, d.queue, d.priority, d.subject, d.dedupe_key, d.payload, d.max_attempts,
            d.deadline, d.tags, d.meta, d.group_key, d.limit_key, d.run_after, clock_timestamp()
        from decided d
        where d.accepted and not d.due
    ),
    lane as materialized (
        select d.lane_id, d.queue, d.priority, d.job_type, d.limit_key, bool_or(d.due) as due
        from decided d
        where d.accepted
        group by d.lane_id, d.queue, d.priority, d.job_type, d.limit_key
    ),
    seen as (
        insert into wakeful.lane_seen (lane_id, queue, priority, job_type, limit_key, suspect)
        select n.lane_id, n.queue, n.priority, n.job_type, n.limit_key, false
        from lane n
        where (select l.lane_id from wakeful.lane l where l.lane_id = n.lane_id) is null
          and (select s.lane_id from wakeful.lane_seen s where s.lane_id = n.lane_id limit 1) is null
    )
    select
        array_agg(a.job_id) as job_ids, array_agg(a.accepted) as accepted, array_agg(a.fault) as faults,
        count(*) filter (where a.sound and a.job_id is null) as unsettled,
        bool_or(a.accepted and not a.due and a.run_after < clock_timestamp() + interval '1 minute') as soon,
        (select array_agg(l.lane_id) from lane l where l.due) as lanes
    into settled
    from (
        select
            d.*, case when d.accepted then d.new_id
                      when d.key is not null then coalesce(d.taken_id, (select k.job_id from wakeful.dedupe k where k.key = d.key))
                 end as job_id
        from decided d
        order by d.ordinal
    ) as a;

    -- A key whose holder came or went while the statement above ran: settle each by itself.
    if settled.unsettled > 0 then
        for unsettled in
            select i.*
            from wakeful.batch_items(jobs) as i
            where i.fault is null and settled.job_ids[i.ordinal] is null
            order by i.dedupe_key, i.ordinal
        loop
            select e.job_id, e.created
            into job_id, created
            from wakeful.enqueue(
                unsettled.job_type, unsettled.payload, unsettled.queue, unsettled.priority, unsettled.subject,
                unsettled.dedupe_key, unsettled.run_after, unsettled.max_attempts, unsettled.deadline, unsettled.tags,
                unsettled.meta, unsettled.group_key, unsettled.limit_key, notify) as e;
            settled.job_ids[unsettled.ordinal]  := job_id;
            settled.accepted[unsettled.ordinal] := created;
        end loop;
    end if;

    if notify then
        perform wakeful.notify_lanes(settled.lanes);
        if settled.soon then
            perform pg_notify('wakeful', '');
        end if;
    end if;
    return query
    select a.n::integer, a.job_id, a.created, a.sqlstate, a.message, a.hint
    from unnest(settled.job_ids, settled.accepted, settled.faults) with ordinality
         as a (job_id, created, sqlstate, message, hint, n);
end
$$;
comment on function wakeful.enqueue_many(jsonb, boolean) is 'Enqueue an array of {"job_type", "payload", ...} in the caller''s transaction. One row for each element, by ordinal (from 1): created, or the active job with its dedupe_key, or what is wrong with it (sqlstate, message, hint); a bad element stops no other';

-- ---------------------------------------------------------------------------------------------------------------
-- The public API: looking, cancelling, requeueing, pausing, alerting
-- ---------------------------------------------------------------------------------------------------------------

create function wakeful.find_active(dedupe_key text) returns uuid
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select k.job_id from wakeful.dedupe k where k.key = dedupe_key
$$;
comment on function wakeful.find_active(text) is 'The job that holds this dedupe key now, or null';

create function wakeful.noted(action text, object text, detail jsonb default '{}') returns void
language sql as $$
    insert into wakeful.audit (action, object, detail) values (action, object, jsonb_strip_nulls(detail))
$$;
comment on function wakeful.noted(text, text, jsonb) is 'Write an entry of the audit';

create function wakeful.no_such_job(job_id uuid) returns void
language sql as $$
    select wakeful.refuse(case
        when current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
            row ('WK010', 'job ' || coalesce(job_id::text, 'null') || ' does not exist, or is past its retention',
                 'Look for it in wakeful.jobs.')::wakeful.fault
        else
            row ('WK011', 'job ' || job_id || ' is not visible to this transaction, or was moving',
                 'Call this function in READ COMMITTED.')::wakeful.fault
    end)
$$;
comment on function wakeful.no_such_job(uuid) is 'Refuse a job id that no table holds';

create function wakeful.cancel(job_id uuid, reason text default null) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    ended  text;
    rounds integer := case when current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then 10 else 1 end;
    fault  wakeful.fault := wakeful.name_fault('reason', nullif(cancel.reason, ''), 1000);
begin
    if fault is not null then
        perform wakeful.refuse(fault);
    end if;
    -- The row may move between two looks, so each round looks everywhere in fresh snapshots.
    for round in 1..rounds loop
        update wakeful.ready r
        set cancel_requested_at = coalesce(r.cancel_requested_at, now()),
            cancel_reason = coalesce(r.cancel_reason, nullif(cancel.reason, ''))
        where r.job_id = cancel.job_id and r.owner is not null;
        if found then
            perform wakeful.noted('cancel', cancel.job_id::text, jsonb_build_object('reason', cancel.reason, 'was', 'RUNNING'));
            return 'RUNNING';
        end if;

        with waiting as (
            delete from wakeful.ready r where r.job_id = cancel.job_id and r.owner is null returning r as job
        )
        select d.status into ended
        from (select array_agg(row (w.job, 'discard', coalesce(cancel.reason, 'cancelled'), null, null, null)::wakeful.departure) as all
              from waiting w) as w
        cross join lateral wakeful.depart(w.all) as d;
        if ended is null then
            with waiting as (
                delete from wakeful.scheduled s where s.job_id = cancel.job_id returning s as job
            )
            select d.status into ended
            from (select array_agg(row (wakeful.as_ready(w.job), 'discard', coalesce(cancel.reason, 'cancelled'), null, null, null)
                                   ::wakeful.departure) as all
                  from waiting w) as w
            cross join lateral wakeful.depart(w.all) as d;
        end if;
        if ended is not null then
            perform wakeful.noted('cancel', cancel.job_id::text, jsonb_build_object('reason', cancel.reason, 'was', 'PENDING'));
            return ended;
        end if;

        select coalesce((select f.status from wakeful.finished f where f.job_id = cancel.job_id),
                        (select 'DEAD' from wakeful.dead d where d.job_id = cancel.job_id))
        into ended;
        if ended is not null then
            return ended;
        end if;
    end loop;
    perform wakeful.no_such_job(cancel.job_id);
end
$$;
comment on function wakeful.cancel(uuid, text) is 'Cancel a job. Gives its status afterwards: CANCELLED, or RUNNING (asked for; its owner is told within a beat), or DONE or DEAD (it had ended before)';

create function wakeful.requeue(job_id uuid) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    back   wakeful.ready;
    holder uuid;
    rounds integer := case when current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then 10 else 1 end;
begin
    for round in 1..rounds loop
        delete from wakeful.dead d where d.job_id = requeue.job_id
        returning (jsonb_populate_record(null::wakeful.ready, to_jsonb(d) || '{"pos": 0}')).* into back;
        if not found then
            delete from wakeful.finished f where f.job_id = requeue.job_id and f.status = 'CANCELLED'
            returning (jsonb_populate_record(null::wakeful.ready, to_jsonb(f) || '{"pos": 0}')).* into back;
        end if;
        exit when back.job_id is not null;
        if exists (select from wakeful.ready r where r.job_id = requeue.job_id)
           or exists (select from wakeful.scheduled s where s.job_id = requeue.job_id)
           or exists (select from wakeful.finished f where f.job_id = requeue.job_id and f.status = 'DONE') then
            return null;
        end if;
    end loop;
    if back.job_id is null then
        perform wakeful.no_such_job(requeue.job_id);
    end if;

    if back.dedupe_key is not null then
        insert into wakeful.dedupe (key, job_id) values (back.dedupe_key, back.job_id) on conflict do nothing;
        if not found then
            select k.job_id into holder from wakeful.dedupe k where k.key = back.dedupe_key;
            perform wakeful.refuse(row ('WK012', 'job ' || back.job_id || ' can''t be requeued: its dedupe key is taken by job '
                                                 || coalesce(holder::text, 'of a concurrent transaction'),
                                        'Wait until that job has ended, or cancel it.')::wakeful.fault);
        end if;
    end if;
    -- The delete above gave the transaction its id, so the position comes after it.
    insert into wakeful.ready (
        lane_id, pos, job_id, job_type, queue, priority, subject, dedupe_key, payload, max_attempts, deadline, tags, meta,
        group_key, limit_key, run_after, attempts, run_no, handed_back, snoozed, snoozed_for, lost, last_error, errors, created_at)
    values (
        wakeful.lane_id(back.queue, back.priority, back.job_type, back.limit_key, false), nextval('wakeful.position'), back.job_id,
        back.job_type, back.queue, back.priority, back.subject, back.dedupe_key, back.payload, back.max_attempts, back.deadline,
        back.tags, back.meta, back.group_key, back.limit_key, clock_timestamp(), 0, back.run_no, 0, 0, interval '0', 0, back.last_error,
        back.errors, back.created_at);
    perform wakeful.noted('requeue', back.job_id::text, jsonb_build_object('attempts', back.attempts, 'lost', back.lost));
    perform wakeful.notify_lanes(array[wakeful.lane_id(back.queue, back.priority, back.job_type, back.limit_key, false)]);
    return back.job_id;
end
$$;
comment on function wakeful.requeue(uuid) is 'Run a DEAD or CANCELLED job again, with its attempts at zero. Gives its id; null, and nothing happens, in any other status';

create function wakeful.backlog(queue text default null) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    with recursive present (lane_id) as (
        (select r.lane_id from wakeful.ready r order by r.lane_id limit 1)
        union all
        select (select r.lane_id from wakeful.ready r where r.lane_id > p.lane_id order by r.lane_id limit 1)
        from present p
        where p.lane_id is not null
    ),
    waiting as (
        select 1
        from present p
        cross join lateral (
            select r.queue from wakeful.ready r where r.lane_id = p.lane_id order by r.pos limit 1
        ) as head
        left join wakeful.queue q on q.name = head.queue
        cross join lateral (
            select 1 from wakeful.ready r where r.lane_id = p.lane_id and r.owner is null limit 10000
        ) as one
        where p.lane_id is not null and q.paused_at is null and (backlog.queue is null or head.queue = backlog.queue)
        limit 10000
    )
    select count(*) from waiting
$$;
comment on function wakeful.backlog(text) is 'Jobs of a queue (of all, by default) that could start now: one number for autoscalers. Counting stops at 10000; a paused queue has none';

create function wakeful.pause(queue text, reason text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    fault wakeful.fault := coalesce(
        wakeful.name_fault('queue', coalesce(pause.queue, ''), 200), wakeful.name_fault('reason', nullif(pause.reason, ''), 1000));
begin
    if fault is not null then
        perform wakeful.refuse(fault);
    end if;
    insert into wakeful.queue as q (name, paused_at, paused_by, reason)
    values (pause.queue, now(), session_user, pause.reason)
    on conflict (name) do update set paused_at = now(), paused_by = session_user, reason = excluded.reason
    where q.paused_at is null;
    if found then
        perform wakeful.noted('pause', pause.queue, jsonb_build_object('reason', pause.reason));
        perform pg_notify('wakeful', '');
        return true;
    end if;
    return false;
end
$$;
comment on function wakeful.pause(text, text) is 'Claim nothing more from a queue, until resume(); running jobs go on. False: it was paused already';

create function wakeful.resume(queue text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update wakeful.queue q set paused_at = null, paused_by = null, reason = null
    where q.name = resume.queue and q.paused_at is not null;
    if found then
        perform wakeful.noted('resume', resume.queue);
        perform pg_notify('wakeful', '');
        return true;
    end if;
    return false;
end
$$;
comment on function wakeful.resume(text) is 'Open a paused queue again. False: it was not paused';

create function wakeful.is_reserved_kind(kind text) returns boolean
language sql immutable parallel safe as $$
    select coalesce(kind = any (array[
        'job_dead', 'job_failed', 'never_finishes', 'queue_stalled', 'no_worker', 'dead_rate', 'rescues', 'overrun',
        'long_transaction', 'sink_failing', 'loop_blocked', 'listener_down', 'clock_skew', 'digest', 'test']), false)
$$;
comment on function wakeful.is_reserved_kind(text) is 'Whether only Wakeful itself makes alerts of this kind, whose keys begin with it and a colon; none with a dot ever is';

create function wakeful.alert(
    kind       text,
    title      text  default null,
    dedupe_key text  default null,
    severity   text  default 'warning',
    subject    text  default null,
    body       jsonb default '{}',
    job_type   text  default null,
    job_id     uuid  default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    fault  wakeful.fault;
    number bigint;
begin
    fault := case
        when alert.kind is null or alert.kind !~ '^[a-z][a-z0-9_.]{0,99}$' then
            row ('WK020', 'alert kind "' || coalesce(left(alert.kind, 100), 'null') || '" is not a name',
                 'Use small letters, digits, dots and underscores: publish_failed.')::wakeful.fault
        when wakeful.is_reserved_kind(alert.kind) then
            row ('WK025', 'alert kind "' || alert.kind || '" is one of Wakeful''s own', 'Use a name of your own, such as shop.' || alert.kind || '.')::wakeful.fault
        when wakeful.is_reserved_kind(split_part(alert.dedupe_key, ':', 1)) and alert.dedupe_key like '%:%' then
            row ('WK025', 'dedupe_key begins as those of Wakeful''s own alerts do: "' || split_part(alert.dedupe_key, ':', 1) || ':"',
                 'Begin it with a name of your own, or leave it out.')::wakeful.fault
        when alert.severity is null or alert.severity not in ('info', 'warning', 'error', 'critical') then
            row ('WK021', 'unknown severity "' || coalesce(left(alert.severity, 100), 'null') || '"',
                 'Use info, warning, error or critical.')::wakeful.fault
        when alert.body is null or jsonb_typeof(alert.body) <> 'object' or octet_length(alert.body::text) > 65536 then
            row ('WK022', 'alert body is not a JSON object of at most 65536 bytes', 'Keep the details short; link to the rest.')::wakeful.fault
        else coalesce(
            wakeful.name_fault('dedupe_key', alert.dedupe_key, 1000), wakeful.name_fault('subject', alert.subject, 1000),
            wakeful.name_fault('title', alert.title, 1000), wakeful.name_fault('job_type', alert.job_type, 200))
    end;
    if fault is not null then
        perform wakeful.refuse(fault);
    end if;
    insert into wakeful.alert_outbox (kind, dedupe_key, job_type, job_id, fingerprint, title, severity, subject, body)
    values (
        alert.kind, coalesce(alert.dedupe_key, alert.kind || ':' || coalesce(alert.subject, alert.job_id::text, '')), alert.job_type,
        alert.job_id, coalesce(alert.job_type || ':', '') || alert.kind, coalesce(alert.title, alert.kind), alert.severity,
        alert.subject, alert.body)
    returning outbox_id into number;
    return number;
end
$$;
comment on function wakeful.alert(text, text, text, text, text, jsonb, text, uuid) is 'Tell people, in the caller''s own transaction. Occurrences with one dedupe_key (default: kind and subject) are folded into one alert. Gives the number of the outbox row';

create function wakeful.acknowledge(alert_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    update wakeful.alert a
    set state = 'acknowledged', acknowledged_at = now(), acknowledged_by = session_user, look_at = now()
    where a.alert_id = acknowledge.alert_id and a.state = 'open';
    if found then
        perform wakeful.noted('acknowledge', 'alert ' || acknowledge.alert_id);
        return true;
    end if;
    return false;
end
$$;
comment on function wakeful.acknowledge(bigint) is 'Take an open alert on: nobody is reminded of it, and it goes to nobody else; its end is still told. False: it is not open';

create function wakeful.resolve(alert_id bigint, reason text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    fault wakeful.fault := wakeful.name_fault('reason', nullif(resolve.reason, ''), 1000);
begin
    if fault is not null then
        perform wakeful.refuse(fault);
    end if;
    update wakeful.alert a
    set state = 'resolved', resolved_at = now(), look_at = now(),
        resolved_reason = 'by ' || session_user || coalesce(': ' || nullif(resolve.reason, ''), '')
    where a.alert_id = resolve.alert_id and a.state <> 'resolved';
    if found then
        perform wakeful.noted('resolve', 'alert ' || resolve.alert_id, jsonb_build_object('reason', resolve.reason));
        return true;
    end if;
    return false;
end
$$;
comment on function wakeful.resolve(bigint, text) is 'End an alert, which is told; what happens after it is a new alert. False: it has ended before, or was never there';

create function wakeful.mute(
    until timestamptz, reason text, kind text default null, job_type text default null, queue text default null,
    subject text default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    fault  wakeful.fault;
    number bigint;
begin
    fault := case
        when num_nonnulls(mute.kind, mute.job_type, mute.queue, mute.subject) = 0 then
            row ('WK023', 'a mute names nothing, which would be everything', 'Name a kind, job type, queue or subject.')::wakeful.fault
        when mute.until is null or mute.until <= now() or mute.until > now() + interval '10 years' then
            row ('WK024', 'a mute ends in the past, or not within ten years', 'Give a time within the next ten years.')::wakeful.fault
        else coalesce(
            wakeful.name_fault('reason', coalesce(mute.reason, ''), 1000), wakeful.name_fault('kind', mute.kind, 100),
            wakeful.name_fault('job_type', mute.job_type, 200), wakeful.name_fault('queue', mute.queue, 200),
            wakeful.name_fault('subject', mute.subject, 1000))
    end;
    if fault is not null then
        perform wakeful.refuse(fault);
    end if;
    insert into wakeful.alert_mute (kind, job_type, queue, subject, until, reason)
    values (mute.kind, mute.job_type, mute.queue, mute.subject, mute.until, mute.reason)
    returning mute_id into number;
    perform wakeful.noted('mute', 'mute ' || number, jsonb_build_object(
        'kind', mute.kind, 'job_type', mute.job_type, 'queue', mute.queue, 'subject', mute.subject, 'until', mute.until,
        'reason', mute.reason));
    return number;
end
$$;
comment on function wakeful.mute(timestamptz, text, text, text, text, text) is 'Tell nobody of alerts that fit everything named here, until a time. They are counted all the same. Gives the number of the mute';

create function wakeful.unmute(mute_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    update wakeful.alert_mute m set ended_at = now()
    where m.mute_id = unmute.mute_id and m.ended_at is null and m.until > now();
    if found then
        perform wakeful.noted('unmute', 'mute ' || unmute.mute_id);
        -- What was kept back meanwhile is looked at now; an alert that somebody holds is looked at when its time comes.
        update wakeful.alert a set look_at = now()
        where a.alert_id = any (array(
            select o.alert_id from wakeful.alert o where o.look_at > now() for no key update skip locked));
        return true;
    end if;
    return false;
end
$$;
comment on function wakeful.unmute(bigint) is 'Take a mute back before its time. False: it is over, or was never there';

create function wakeful.resend(alert_id bigint default null, sink text default null) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    number integer;
begin
    if num_nonnulls(resend.alert_id, resend.sink) = 0 then
        perform wakeful.refuse(row ('WK026', 'resend() names neither an alert nor a sink', 'Name one, or both.')::wakeful.fault);
    end if;
    -- Whoever makes messages of an alert holds it: none is made while this looks for the latest.
    perform from wakeful.alert a
    where a.alert_id = any (array(
        select d.alert_id from wakeful.alert_delivery d
        where d.state = 'failed' and (resend.alert_id is null or d.alert_id = resend.alert_id)
          and (resend.sink is null or d.sink = resend.sink)))
    order by a.alert_id
    for no key update;
    update wakeful.alert_delivery d
    set state = 'pending', excused = d.attempts, next_try_at = now()
    where d.state = 'failed' and (resend.alert_id is null or d.alert_id = resend.alert_id)
      and (resend.sink is null or d.sink = resend.sink)
      and not exists (
          select from wakeful.alert_delivery l
          where l.alert_id = d.alert_id and l.sink = d.sink and (l.created_at, l.delivery_id) > (d.created_at, d.delivery_id));
    get diagnostics number = row_count;
    if number > 0 then
        perform wakeful.noted('resend', coalesce('alert ' || resend.alert_id, 'sink ' || resend.sink), jsonb_build_object(
            'sink', resend.sink, 'messages', number));
    end if;
    return number;
end
$$;
comment on function wakeful.resend(bigint, text) is 'Send once more what was given up, to a sink or about an alert, with all its tries before it. What a later message has overtaken stays as it is. Gives how many; 0: there is nothing, or it is on its way already';

create function wakeful.acknowledge_as(alert_id bigint, who text)
returns table (state text, acknowledged_by text, acknowledged_at timestamptz, is_new boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    update wakeful.alert a
    set state = 'acknowledged', acknowledged_at = now(), acknowledged_by = acknowledge_as.who, look_at = now()
    where a.alert_id = acknowledge_as.alert_id and a.state = 'open';
    is_new := found;
    if found then
        perform wakeful.noted('acknowledge', 'alert ' || acknowledge_as.alert_id, jsonb_build_object('by', acknowledge_as.who));
    end if;
    return query
        select a.state, a.acknowledged_by, a.acknowledged_at, acknowledge_as.is_new
        from wakeful.alert a
        where a.alert_id = acknowledge_as.alert_id;
end
$$;
comment on function wakeful.acknowledge_as(bigint, text) is 'Take an open alert on in the name of somebody whom the daemon answers to. Gives how it stands now, and whether this call did it; no row: there is no such alert';

create function wakeful.mute_alert(alert_id bigint, length interval, reason text, who text)
returns table (
    mute_id bigint, until timestamptz, muted_by text, kind text, job_type text, queue text, subject text, is_new boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    about wakeful.alert;
begin
    -- Whoever asks for the same at the same time waits here, and then finds the mute.
    select a.* into about from wakeful.alert a where a.alert_id = mute_alert.alert_id for no key update;
    if not found then
        return;
    end if;
    kind := about.kind;
    job_type := about.job_type;
    subject := about.subject;
    queue := case when about.job_type is null then nullif(about.body ->> 'queue', '') end;
    is_new := false;
    select m.mute_id, m.until, m.muted_by
    into mute_alert.mute_id, mute_alert.until, mute_alert.muted_by
    from wakeful.alert_mute m
    where m.ended_at is null and m.until > now()
      and (m.kind, m.job_type, m.queue, m.subject)
          is not distinct from (mute_alert.kind, mute_alert.job_type, mute_alert.queue, mute_alert.subject)
    order by m.until desc
    limit 1;
    if not found then
        is_new := true;
        muted_by := who;
        insert into wakeful.alert_mute (kind, job_type, queue, subject, until, reason, muted_by)
        values (mute_alert.kind, mute_alert.job_type, mute_alert.queue, mute_alert.subject, now() + length, reason, who)
        returning alert_mute.mute_id, alert_mute.until into mute_alert.mute_id, mute_alert.until;
        perform wakeful.noted('mute', 'mute ' || mute_alert.mute_id, jsonb_build_object(
            'by', who, 'alert', about.alert_id, 'kind', mute_alert.kind, 'job_type', mute_alert.job_type, 'queue', mute_alert.queue,
            'subject', mute_alert.subject, 'until', mute_alert.until, 'reason', reason));
    end if;
    return next;
end
$$;
comment on function wakeful.mute_alert(bigint, interval, text, text) is 'Mute what is like an alert (its kind, job type and subject; without a job type its queue) in the name of somebody whom the daemon answers to. Gives the mute, also one that was in force before; no row: there is no such alert';

-- ---------------------------------------------------------------------------------------------------------------
-- What only the owner of the schema may do, on behalf of daemons
-- ---------------------------------------------------------------------------------------------------------------

create function wakeful.expire_finished(history interval) returns table (slot integer, emptied boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    young    boolean;
    occupied boolean;
begin
    if history is null or history < interval '0' then
        perform wakeful.refuse(row ('WK013', 'history is ' || coalesce(history::text, 'null'),
                                    'Give how long finished jobs are kept: 7 days.')::wakeful.fault);
    end if;
    -- A slot must be past the history before its turn comes again: a longer history takes wider slots.
    update wakeful.installation i set finished_slot_width = history / 14 where i.finished_slot_width * 14 < history;
    for number in 0..15 loop
        continue when number = wakeful.finished_slot(now());
        execute format('select exists (select from wakeful.finished_%1$s where finished_at >= $1),'
                       '       exists (select from wakeful.finished_%1$s)', number)
        into young, occupied using now() - history;
        continue when young or not occupied;
        slot := number;
        emptied := false;
        begin
            execute format('lock table wakeful.finished_%s in access exclusive mode nowait', number);
            -- Looked at again under the lock: a finish may have written here since.
            execute format('select exists (select from wakeful.finished_%s where finished_at >= $1)', number)
            into young using now() - history;
            continue when young;
            execute format('truncate wakeful.finished_%s', number);
            emptied := true;
        exception when lock_not_available then
            null;  -- Somebody reads it: the next pass tries again, and no finish ever queues behind us.
        end;
        return next;
    end loop;
end
$$;
comment on function wakeful.expire_finished(interval) is 'Empty the slots of the ring whose rows are all older than the history. Gives those that are: emptied, or not because somebody reads them, and left for the next pass';

create function wakeful.expire_audit(age interval, most integer) returns integer
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with oldest as (
        select a.audit_id, a.happened_at from wakeful.audit a order by a.audit_id limit greatest(most, 0)
    ),
    gone as (
        delete from wakeful.audit a
        where a.audit_id = any (array(
            select o.audit_id from oldest o where o.happened_at < now() - greatest(age, interval '90 days')))
        returning a.audit_id
    )
    select count(*)::integer from gone
$$;
comment on function wakeful.expire_audit(interval, integer) is 'Remove the oldest entries of the audit that are past this age; never one younger than 90 days. Gives how many';

create function wakeful.raise_position() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    highest bigint;
begin
    -- One at a time: every instance calls this when the server comes back.
    perform pg_advisory_xact_lock(hashtext('wakeful.position'));
    with recursive last_of_lane (lane_id, pos) as (
        (select r.lane_id, r.pos from wakeful.ready r order by r.lane_id desc, r.pos desc limit 1)
        union all
        select below.lane_id, below.pos
        from last_of_lane l
        cross join lateral (
            select r.lane_id, r.pos from wakeful.ready r where r.lane_id < l.lane_id order by r.lane_id desc, r.pos desc limit 1
        ) as below
    )
    select max(l.pos) into highest from last_of_lane l;
    if highest > (select last_value from wakeful.position) then
        -- Well above: producers may take positions between this look and this call, and must not get one twice.
        highest := highest + 100000;
        perform setval('wakeful.position', highest);
        return highest;
    end if;
    return null;
end
$$;
comment on function wakeful.raise_position() is 'Bring the position sequence above the highest position in use: a sequence can go backwards in a crash or failover. Gives the new value, or null where nothing was wrong';

create function wakeful.system_identifier() returns text
language plpgsql stable as $$
begin
    return (select c.system_identifier::text from pg_control_system() as c);
exception when insufficient_privilege or undefined_function or feature_not_supported then
    return null;  -- A managed service may refuse it.
end
$$;
comment on function wakeful.system_identifier() is 'What tells this server from another one; null where it does not tell. A physical copy has the same';

create function wakeful.adopt(system_identifier text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update wakeful.installation set system_identifier = adopt.system_identifier;
    perform wakeful.noted('adopt', coalesce(adopt.system_identifier, 'unknown'));
end
$$;
comment on function wakeful.adopt(text) is 'Say that this installation now belongs to this server, after a restore, a major upgrade or a switchover';

-- ---------------------------------------------------------------------------------------------------------------
-- Looking at jobs
-- ---------------------------------------------------------------------------------------------------------------

-- A subquery and no CTE: so it is planned together with the query round it, and a page of jobs is read by indexes.
create view wakeful.jobs as
    select
        j.job_id, j.job_type, j.status, j.queue, j.priority, j.subject,
        case when t.secret_paths <> '{}' then wakeful.redacted(j.payload, t.secret_paths) else j.payload end as payload,
        j.attempts, j.max_attempts, j.run_after,
        case when j.status = 'RUNNING' then i.beat_at + coalesce(t.lease, interval '30 seconds') end as lease_until,
        j.dedupe_key, j.last_error, j.errors,
        case when t.secret_paths <> '{}' then wakeful.redacted(j.result, t.secret_paths) else j.result end as result,
        j.degraded, p.document as progress, j.tags, j.meta, j.run_no,
        j.handed_back, j.snoozed, j.lost, j.instance_id, j.created_at, j.started_at, j.finished_at
    from (
        select
            r.job_id, r.job_type, case when r.owner is null then 'PENDING' else 'RUNNING' end as status, r.queue, r.priority, r.subject,
            r.payload, r.attempts, r.max_attempts, r.run_after, r.dedupe_key, r.last_error, coalesce(r.errors, '[]') as errors,
            null::jsonb as result, '{}'::text[] as degraded, r.tags, r.meta, r.run_no, r.handed_back, r.snoozed, r.lost,
            r.owner as instance_id, r.created_at, r.started_at, null::timestamptz as finished_at
        from wakeful.ready r
        union all
        select
            s.job_id, s.job_type, 'PENDING', s.queue, s.priority, s.subject, s.payload, s.attempts, s.max_attempts, s.run_after,
            s.dedupe_key, s.last_error, coalesce(s.errors, '[]'), null, '{}', s.tags, s.meta, s.run_no, s.handed_back, s.snoozed,
            s.lost, null, s.created_at, null, null
        from wakeful.scheduled s
        union all
        select
            d.job_id, d.job_type, 'DEAD', d.queue, d.priority, d.subject, d.payload, d.attempts, d.max_attempts, d.run_after,
            d.dedupe_key, d.last_error, d.errors, null, '{}', d.tags, d.meta, d.run_no, d.handed_back, d.snoozed, d.lost,
            d.instance_id, d.created_at, d.started_at, d.finished_at
        from wakeful.dead d
        union all
        select
            f.job_id, f.job_type, f.status, f.queue, f.priority, f.subject, f.payload, f.attempts, f.max_attempts,
            coalesce(f.run_after, f.created_at), f.dedupe_key, f.last_error, coalesce(f.errors, '[]'), f.result,
            coalesce(f.degraded, '{}'), coalesce(f.tags, '{}'), coalesce(f.meta, '{}'), f.run_no, coalesce(f.handed_back, 0),
            coalesce(f.snoozed, 0), coalesce(f.lost, 0), f.instance_id, f.created_at, f.started_at, f.finished_at
        from wakeful.finished f
    ) as j
    left join wakeful.job_type t on t.job_type = j.job_type
    left join wakeful.instance i on i.instance_id = j.instance_id and j.status = 'RUNNING'
    left join wakeful.progress p on p.job_id = j.job_id and (p.run_no = j.run_no or j.status <> 'RUNNING');
comment on view wakeful.jobs is 'One row a job, wherever it is; what its type calls secret is replaced, in payload and result';
do $$
declare
    described record;
begin
    -- A column of the view means what that of the tables does, if nothing else is said here.
    for described in
        select v.attname as column_name, coalesce(own.note, col_description(f.attrelid, f.attnum)) as note
        from pg_attribute v
        left join pg_attribute f on f.attrelid = 'wakeful.finished'::regclass and f.attname = v.attname
        left join (values
            ('status', 'PENDING, RUNNING, DONE, DEAD or CANCELLED'),
            ('payload', 'What the handler is given, with [secret] at the paths that its type calls secret'),
            ('result', 'What the handler returned, with [secret] at the same paths'),
            ('lease_until', 'Until when the owner of a running job may be silent'),
            ('progress', 'Steps and progress: of this run while it runs, else of the last')
        ) as own (column_name, note) on own.column_name = v.attname
        where v.attrelid = 'wakeful.jobs'::regclass and v.attnum > 0
    loop
        execute format('comment on column wakeful.jobs.%I is %L', described.column_name, described.note);
    end loop;
end
$$;

create function wakeful.job(job_id uuid)
returns table (
    job_id uuid, job_type text, status text, queue text, priority text, subject text, attempts integer, max_attempts integer,
    run_after timestamptz, dedupe_key text, last_error text, result jsonb, degraded text[], progress jsonb, tags text[],
    run_no integer, created_at timestamptz, started_at timestamptz, finished_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select
        j.job_id, j.job_type, j.status, j.queue, j.priority, j.subject, j.attempts, j.max_attempts, j.run_after, j.dedupe_key,
        j.last_error, j.result, j.degraded, j.progress, j.tags, j.run_no, j.created_at, j.started_at, j.finished_at
    from wakeful.jobs j
    where j.job_id = job.job_id
$$;
comment on function wakeful.job(uuid) is 'Status, progress and result of one job, without its payload; no row: unknown, or past its retention';

-- ---------------------------------------------------------------------------------------------------------------
-- Duties, roles and grants
-- ---------------------------------------------------------------------------------------------------------------

insert into wakeful.duty (name)
values ('fold_lanes'), ('serve_check'), ('expire_finished'), ('prune'), ('backstop'), ('job_types'), ('alert_rules');

create function wakeful.grant_roles() returns text[]
language plpgsql as $$
declare
    missing  text[] := '{}';
    role     text;
    callable text;
    kind     regtype;
begin
    -- PUBLIC first, whether the roles are there or not: what a migration adds is nobody's until it is granted below. Types, too:
    -- somebody else's table or function that is made of one would stand in the way of the next migration.
    revoke all on schema wakeful from public;
    revoke all on all tables in schema wakeful from public;
    revoke all on all sequences in schema wakeful from public;
    revoke all on all routines in schema wakeful from public;
    for kind in
        select t.oid::regtype from pg_type t where t.typnamespace = 'wakeful'::regnamespace and t.typcategory <> 'A'
    loop
        execute format('revoke all on type %s from public', kind);
    end loop;

    -- Gives the statements that an administrator has to run first; empty when the roles exist and are granted.
    foreach role in array '{wakeful_producer,wakeful_worker,wakeful_observer}'::text[] loop
        if not exists (select from pg_roles r where r.rolname = role) then
            begin
                execute format('create role %I nologin', role);
            exception
                when insufficient_privilege then missing := missing || format('create role %I nologin;', role);
                when duplicate_object or unique_violation then null;  -- Another database of this server was faster.
            end;
        end if;
    end loop;
    if missing <> '{}' then
        return missing;
    end if;

    grant usage on schema wakeful to wakeful_producer, wakeful_worker, wakeful_observer;

    foreach callable in array array[
        'enqueue(text, jsonb, text, text, text, text, timestamptz, integer, interval, text[], jsonb, text, text, boolean)',
        'enqueue_many(jsonb, boolean)', 'cancel(uuid, text)', 'job(uuid)', 'find_active(text)', 'backlog(text)',
        'alert(text, text, text, text, text, jsonb, text, uuid)'] loop
        execute format('grant execute on function wakeful.%s to wakeful_producer, wakeful_worker', callable);
    end loop;

    grant select on wakeful.jobs, wakeful.queue, wakeful.lane, wakeful.job_type, wakeful.instance, wakeful.duty, wakeful.alert,
        wakeful.alert_outbox, wakeful.alert_delivery, wakeful.alert_notice, wakeful.alert_sink, wakeful.alert_mute, wakeful.audit, wakeful.job_log, wakeful.progress, wakeful.installation,
        wakeful.migration to wakeful_observer;
    -- redacted() as well: a view's functions run with the rights of whoever looks.
    grant execute on function wakeful.job(uuid), wakeful.find_active(text), wakeful.backlog(text), wakeful.redacted(jsonb, text[])
        to wakeful_observer;

    grant select, insert, update, delete on all tables in schema wakeful to wakeful_worker;
    revoke insert, update, delete on wakeful.installation, wakeful.migration, wakeful.audit from wakeful_worker;
    grant insert on wakeful.audit to wakeful_worker;
    grant usage, select on all sequences in schema wakeful to wakeful_worker;
    grant execute on all functions in schema wakeful to wakeful_worker;
    revoke execute on function wakeful.grant_roles(), wakeful.adopt(text) from wakeful_worker;
    return missing;
end
$$;
comment on function wakeful.grant_roles() is 'Create the three roles where missing, and grant them what they may do. Gives the statements for an administrator where the owner may not create roles';

revoke all on all functions in schema wakeful from public;
