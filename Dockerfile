# The image of the daemon: Python, Wakeful and its locked dependencies, and nothing that could build or change them.
#
#   docker build -t wakeful .                                          the daemon; add your handlers to it: docs/deployment.md
#   docker build -t wakeful-demo --build-arg 'EXTRAS=[demo,uvloop]' .  with the libraries of the example, too
#   docker build --secret id=pip.conf,src=pip.conf .                   with a package index of your own; the file stays outside
#
# Its root file system may be read-only, and its user is 10001. BASE may be any image with glibc, Python 3.11 or newer as
# `python3` (with venv and pip), groupadd and useradd.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /build

# Every file is checked against its hash in the lock. What is installed afterwards comes out of this folder alone.
COPY requirements.lock ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python3 -m venv tools \
    && tools/bin/pip download --require-hashes --only-binary=:all: --dest wheels --requirement requirements.lock \
    && tools/bin/pip install --no-index --find-links wheels hatchling

COPY pyproject.toml README.md LICENSE schema.sql config.toml ./
COPY daemon daemon
COPY examples examples
ARG EXTRAS=[uvloop]
RUN tools/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir wheels . \
    && python3 -m venv --without-pip /opt/wakeful \
    && tools/bin/pip --python /opt/wakeful install --no-index --find-links wheels "wakeful${EXTRAS}"


FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Wakeful" \
      org.opencontainers.image.description="A job daemon for PostgreSQL: enqueue in SQL, run in Python, hear of every failure." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"

RUN groupadd --gid 10001 wakeful \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin wakeful
COPY --from=build /opt/wakeful /opt/wakeful

# Handlers and config.toml have their place in /app. Which DATABASE_URL, is for whoever runs it to say.
WORKDIR /app
ENV PATH=/opt/wakeful/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    WAKEFUL__HTTP__HOST=0.0.0.0 \
    WAKEFUL__HTTP__PORT=8080
EXPOSE 8080
USER 10001:10001

STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "-S", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['WAKEFUL__HTTP__PORT']), timeout=4); c.request('GET', '/livez'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["wakeful"]
CMD ["run"]
