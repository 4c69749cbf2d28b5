# The service and its tools in one image.
#
#   docker build -t agent-host --build-arg COMMIT="$(git log -1 --format='%h %cs')" .
#   docker run -p 3000:3000 -e LLM_API_KEY=… agent-host

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# The tools are compiled for a target of their own.
RUN rustup target add wasm32-unknown-unknown
# What `agent-host --version` says: the history is not sent to the builder.
ARG COMMIT=""
RUN cargo xtask dist --no-packages --commit "$COMMIT"
# In production nothing serves that nobody approved, and a policy that names a digest approves it: whoever builds this image
# approves the tools in it.
RUN for file in target/tools/*.wasm; do \
      printf '[[component]]\nname = "%s"\ndigest = "sha256:%s"\n' \
        "$(basename "$file" .wasm)" "$(sha256sum "$file" | cut -d' ' -f1)"; \
    done > target/tools.policy.toml

FROM debian:bookworm-slim
# Certificates to reach the model provider with, and curl for the health check.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --create-home --home-dir /var/lib/agent-host agent-host \
 && install --directory --owner=agent-host --mode=0700 /var/lib/agent-host/.cache
# The author's program, `agent-tool`, stays behind: it runs compilers and package managers. Without symbols: who needs names and lines
# in a backtrace puts /src/target/shipped/agent-host.debug of the first stage beside it.
COPY --from=build /src/target/shipped/agent-host /usr/local/bin/agent-host
COPY --from=build /src/target/tools/ /usr/share/agent-host/tools/
COPY --from=build /src/target/tools.policy.toml /usr/share/agent-host/tools.policy.toml
USER agent-host
WORKDIR /var/lib/agent-host
# The first start compiles the tools into ~/.cache; mount a volume there to keep them over restarts, and what the service remembers of
# them. A new volume takes its owner from that folder; one of the machine has to be given to user 10001. With a read-only root file
# system it does without (every start compiles), or set TOOLS_CACHE_DIR to a volume of this user's own.
ENV NODE_ENV=production \
    TOOLS_DIR=/usr/share/agent-host/tools
EXPOSE 3000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
    CMD curl --fail --silent --output /dev/null "http://127.0.0.1:${PORT:-3000}/" || exit 1
ENTRYPOINT ["agent-host"]
CMD ["serve"]
