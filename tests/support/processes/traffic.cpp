#include "tests/support/processes/traffic.h"

namespace heddle::test {

std::vector<std::byte> traffic(Rank& rank, std::int64_t count, DType dtype) {
  std::vector<Tensor> came;
  const auto make = [&](std::int64_t size) {
    std::vector<double> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.37 * static_cast<double>((17 * static_cast<std::size_t>(rank.index) + 7 * i) % 1001) - 100;
    const Tensor wide = Tensor::from_host(rank.device, {size}, values);
    Tensor x = Tensor::empty(rank.device, {size}, dtype);
    rank.device.backend().elementwise().cast(wide, x);
    return x;
  };
  Communicator& world = rank.world;
  const int next = (rank.index + 1) % rank.size;
  const int before = (rank.index + rank.size - 1) % rank.size;
  Tensor x = make(count);
  came.push_back(world.all_reduce(x).wait());
  came.push_back(world.all_reduce(x, Reduction::max).wait());
  came.push_back(world.reduce_scatter(x).wait());
  came.push_back(world.all_gather(make(count + rank.index)).wait());
  came.push_back(world.broadcast(x, rank.size - 1).wait());
  std::vector<Tensor> parts;
  for (int p = 0; p < rank.size; ++p) parts.push_back(make(count / 2 * p + 1));
  for (const Tensor& part : world.all_to_all(parts).wait()) came.push_back(part);
  for (const Tensor& part : world.gather(x, 1).wait()) came.push_back(part);
  came.push_back(world.scatter(parts, 0).wait());
  came.push_back(world.exchange(x, next, before).wait());
  Communicator pair = world.split(rank.index % 2);
  came.push_back(pair.all_reduce(x).wait());
  if (const Tensor reduced = world.reduce(x, 1); reduced.defined()) came.push_back(reduced);
  world.all_reduce_in_place(x).wait();
  came.push_back(x);
  std::vector<std::byte> bytes;
  for (const Tensor& tensor : came) {
    std::vector<std::byte> content(static_cast<std::size_t>(tensor.bytes()));
    tensor.to_host_bytes(tensor.dtype(), content);
    bytes.insert(bytes.end(), content.begin(), content.end());
  }
  return bytes;
}

}  // namespace heddle::test
