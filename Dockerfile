# One image for the host and for the command line:
#   docker run -p 8787:8787 -v evalwright:/data evalwright
#   docker run --rm -v "$PWD:/evals" evalwright run suite.yaml --agent agent.py:answer
FROM python:3.13.7-slim-bookworm AS python

FROM python AS build
RUN pip install --no-cache-dir uv==0.9.2
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE ./
ENV UV_PROJECT_ENVIRONMENT=/evalwright UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
RUN uv sync --frozen --no-dev --no-install-project --no-cache --extra mcp --extra otel --extra postgres
COPY src ./src
RUN uv sync --frozen --no-dev --no-editable --no-cache --extra mcp --extra otel --extra postgres

FROM python
COPY --from=build /evalwright /evalwright
RUN useradd --uid 10001 --create-home evalwright && install -d -o evalwright -g evalwright /data /evals
ENV PATH=/evalwright/bin:$PATH EVALWRIGHT_DB=/data/evalwright.db EVALWRIGHT_HOST=0.0.0.0
USER evalwright
WORKDIR /evals
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["python", "-c", "import os, urllib.request as web; web.urlopen(f'http://127.0.0.1:{os.environ.get(\"EVALWRIGHT_PORT\", 8787)}/v1/host/healthz', timeout=4)"]
ENTRYPOINT ["evalwright"]
CMD ["serve"]
