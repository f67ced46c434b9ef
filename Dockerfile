# Heed in a container: the program, the libraries it needs, the shipped models, and nothing else.
#   docker build -t heed .     (or ./dev image, without docker)
#   docker run -p 8461:8461 heed
FROM debian:trixie-slim AS build
WORKDIR /heed
COPY deploy/packages.txt deploy/
RUN apt-get update && apt-get install -y --no-install-recommends $(grep -v '^#' deploy/packages.txt)
COPY . .
ENV CCACHE_DIR=/ccache CCACHE_BASEDIR=/heed CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
RUN cmake --preset release && cmake --build --preset release --target heed
# ldd names the shared libraries and the loader; they keep their places.
RUN mkdir -p /image/usr/bin /image/etc /image/usr/share/heed && \
    strip -o /image/usr/bin/heed build/release/heed && \
    ldd build/release/heed | grep -o '/[^ ]*' | xargs cp --dereference --parents --target-directory=/image && \
    cp --parents models/*/*.json models/*/*.safetensors /image/usr/share/heed && \
    echo 'heed:x:65532:65532::/:/usr/bin/heed' >/image/etc/passwd

FROM scratch
COPY --from=build /image /
ENV PATH=/usr/bin
USER 65532:65532
EXPOSE 8461 9464
HEALTHCHECK --interval=10s --timeout=3s CMD ["heed", "health"]
ENTRYPOINT ["heed", "serve", "--address=0.0.0.0:8461", "--metrics_address=0.0.0.0:9464"]
