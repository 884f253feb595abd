# syntax=docker/dockerfile:1

FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends cmake clang && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release && cp target/release/secondlook /secondlook

FROM debian:bookworm-slim
# git serves `secondlook review` in a mounted checkout; the certificates are for GitHub and the model.
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates git && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/secondlook secondlook
COPY --from=build /secondlook /usr/local/bin/secondlook
USER secondlook
ENV SECONDLOOK_LISTEN=0.0.0.0:8080 SECONDLOOK_DATA_DIR=/var/lib/secondlook
VOLUME /var/lib/secondlook
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["secondlook"]
CMD ["serve"]
