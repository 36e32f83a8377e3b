# A release names the image by its digest: .ci/digests. `make image` runs these instructions in a Debian root, without Docker.
# Debian's own Python: the newest of the stable release, with the fixes of Debian's security team.
FROM debian:trixie-slim AS builder
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3-venv
COPY .ci/uv.txt /tmp/uv.txt
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/uv.txt
ENV PATH="/opt/uv/bin:${PATH}" \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON=/usr/bin/python3 \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /app
# The dependencies first: this layer is rebuilt only when the lock file changes.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-default-groups --group build --extra server --no-install-project
COPY README.md LICENSE ./
COPY policies policies
COPY extender extender
COPY dashboard dashboard
# Built by the backend of the lock file, which is then taken away again.
RUN uv sync --frozen --no-default-groups --group build --extra server --no-editable \
    && uv sync --frozen --no-default-groups --extra server --no-editable

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=builder /app/.venv /app/.venv
# HOME: the official Kubernetes client looks for one, and not every runtime gives one to a user without a name.
ENV PATH="/app/.venv/bin:${PATH}" \
    HOME=/ \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Numeric, so that Kubernetes can verify runAsNonRoot without looking into the image.
USER 65532:65532
EXPOSE 10290
ENTRYPOINT ["muster", "serve"]
