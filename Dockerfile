# Orrery in a container, by the same two scripts as anywhere else:
#   docker build -t orrery .
#   docker run --rm -v "$PWD":/work orrery predict model.mlir --on h200
# tools/packages/prove_clean_system.sh takes these steps without a container engine.
FROM debian:12

COPY . /opt/orrery
RUN /opt/orrery/run --version && rm -rf /var/lib/apt/lists/*

WORKDIR /work
ENTRYPOINT ["/opt/orrery/run"]
