// A point in a device's work: behind everything that a rank had issued when it was made, and in front of all that the
// rank issues afterwards. Others' work can begin there without any host waiting for it. Made and waited for by backends
// of one kind; each knows what is in its own.
#pragma once

namespace heddle {

class Mark {
 public:
  Mark() = default;
  virtual ~Mark() = default;
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

}  // namespace heddle
