FROM python:3.12-slim
WORKDIR /app
COPY requirements/bot.txt requirements/bot.txt
RUN pip install --no-cache-dir --require-hashes -r requirements/bot.txt
COPY pyproject.toml README.md ./
COPY playbooks playbooks
COPY bot bot
COPY workers/__init__.py workers/__init__.py
RUN pip install --no-cache-dir --no-deps . && useradd --system --home /data baseline && mkdir -p /data && chown baseline /data
USER baseline
ENTRYPOINT ["baseline"]
CMD ["bot"]
