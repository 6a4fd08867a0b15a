// PyTorch, which does the same work as a benchmark for the column `peer`: peers/torch_peer.py, which the program
// contains, run by a Python that can import torch.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

class Peer {
 public:
  /// InputError, which begins with --peer, if there is no such program or it cannot import torch.
  explicit Peer(std::string python);

  /// As in `torch 2.13.0`.
  const std::string& version() const { return version_; }

  /// The seconds of one call of some work, named as in the script: `{"step", "resnet18", "64", "f32", "cpu", "2"}`.
  /// None, with the reason to `on_failure`, if the script fails. The same work is done once.
  std::optional<double> seconds(const std::vector<std::string>& work,
                                const std::function<void(const std::string&)>& on_failure) const;

 private:
  std::string python_;
  std::string version_;
  mutable std::map<std::vector<std::string>, std::optional<double>> known_;  // by work
};

}  // namespace heddle
