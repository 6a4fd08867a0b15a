# Heddle in a container:
#
#   docker build -t heddle .
#   docker run --rm heddle run experiments/quickstart.json --out /tmp/quickstart
#   docker run --rm heddle test --source-file='*/framework/tensors/*'
#
# With the device cuda, on an image of NVIDIA that has nvcc 12.8 or newer and cuDNN 9. Its system must have the packages of
# Debian 12 or newer, as Ubuntu 24.04 does:
#
#   docker build -t heddle:cuda --build-arg BASE=nvidia/cuda:12.9.1-cudnn-devel-ubuntu24.04 --build-arg SETUP=cuda .
#   docker run --rm --gpus all heddle:cuda run experiments/quickstart.json --set device=cuda --out /tmp/quickstart
ARG BASE=debian:12-slim
FROM ${BASE}
# cuda, openmpi, mpich or several of them: what `./heddle setup` is to build besides the program.
ARG SETUP=""
WORKDIR /heddle
COPY . .
# The launcher installs the packages that it needs. Processors differ: the program and its tests are built for the one that
# builds the image, with AVX2 where that has it.
RUN ./heddle setup ${SETUP} && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["./heddle"]
CMD ["--help"]
