# The service for a container, with PostgreSQL elsewhere: docs/install.md, "In containers". compose.yaml is an example.
FROM node:24-bookworm-slim AS modules
WORKDIR /opt/ostler
COPY package.json package-lock.json .npmrc ./
COPY packages/client/package.json packages/client/package.json
# The image has its own Node.
RUN npm ci --omit=dev && rm -r node_modules/node-linux-* node_modules/.bin/node

# The web console, whose packages the service does not need.
FROM node:24-bookworm-slim AS console
WORKDIR /opt/ostler
COPY package.json package-lock.json .npmrc ./
COPY packages/client packages/client
COPY packages/console packages/console
RUN npm ci --ignore-scripts && node packages/console/build.ts

# Not part of the image of the service: builds the boot media of the agent into the folder that the service reads.
FROM node:24-bookworm-slim AS agent-media
RUN apt-get update \
    && apt-get install -y --no-install-recommends debian-archive-keyring kmod binutils zstd dosfstools mtools xorriso \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/ostler
COPY packages/agent packages/agent
# apt names no archive here, because its lists are gone.
ENTRYPOINT ["node", "packages/agent/build/main.ts", "--mirror", "http://deb.debian.org/debian", \
    "--out", "/var/lib/ostler/agent", "--work", "/var/cache/ostler-agent"]

FROM node:24-bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ipmitool ipxe qemu-utils \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/ostler
COPY --from=modules /opt/ostler/node_modules node_modules
COPY package.json LICENSE ./
COPY src src
COPY plugins plugins
COPY drizzle drizzle
COPY packages/cli/src packages/cli/src
COPY packages/client/src packages/client/src
COPY --from=console /opt/ostler/packages/console/dist packages/console/dist
# The embedded database and the programs of drivers need a user other than root, and a folder of their own. A new volume
# has the owner of the folder that it covers.
RUN install -d -o node -g node -m 0700 /var/lib/ostler /var/lib/ostler/agent /var/lib/ostler/images
# A service that runs as root has another user for its drivers: docs/operations.md.
USER node
ENV OSTLER_HOST=0.0.0.0 OSTLER_DATA=/var/lib/ostler OSTLER_LOG_FORMAT=json
EXPOSE 4000 4010 4012
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["node", "-e", "const http = process.env.OSTLER_TLS_CERT ? 'https' : 'http'; require(http).get(http + '://127.0.0.1:4000/readyz', { rejectUnauthorized: false }, (r) => process.exit(r.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=16", "src/main.ts"]
