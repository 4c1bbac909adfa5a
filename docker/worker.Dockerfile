FROM python:3.12-slim
WORKDIR /app
COPY requirements/workers.txt requirements/workers.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/workers.txt
COPY pyproject.toml README.md ./
COPY playbooks playbooks
COPY workers workers
COPY bot/__init__.py bot/__init__.py
RUN pip install --no-cache-dir --no-deps .
ENTRYPOINT ["baseline"]
CMD ["worker"]
