// A point in a device's queue of work: after everything that a rank had issued when the mark was made, and before
// everything that it issues later. Work of other ranks can wait for the mark on the device, without any host thread
// waiting. Each backend derives its own kind of mark and waits only for marks of that kind.
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
