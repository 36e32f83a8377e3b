# A release names the image by its digest: .ci/digests
FROM python:3.11-slim-trixie AS builder
COPY .ci/uv.txt /tmp/uv.txt
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/uv.txt
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /app
# The dependencies first: this layer is rebuilt only when the lock file changes.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-default-groups --group build --no-install-project
COPY README.md LICENSE ./
COPY policies policies
COPY extender extender
# Built by the backend of the lock file, which is then taken away again.
RUN uv sync --frozen --no-default-groups --group build --no-editable && uv sync --frozen --no-default-groups --no-editable

FROM python:3.11-slim-trixie
COPY --from=builder /app/.venv /app/.venv
ENV PATH="/app/.venv/bin:${PATH}" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Numeric, so that Kubernetes can verify runAsNonRoot without looking into the image.
USER 65532:65532
EXPOSE 10290
ENTRYPOINT ["muster", "serve"]
