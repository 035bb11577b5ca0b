"""A shop's onboarding, as a pipeline of jobs: COLLECT -> VISION -> COPY -> BUILD -> PUBLISH.

Read `jobs.py` first: it is the pipeline. What each stage does lives in a plain function of its own that knows
nothing of jobs, in `crawl`, `vision`, `copywriting`, `build` and `publish`; `docs/onboarding.md` tells how to run
it and set it up.
"""
