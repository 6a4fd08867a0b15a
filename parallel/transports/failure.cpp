#include "parallel/transports/failure.h"

#include <new>

#include "parallel/communicator/transport.h"

namespace heddle {

std::optional<Failure> failure_of(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
    return {};
  } catch (const Stopped&) {
    return {};
  } catch (const OutOfMemory& error) {
    return Failure{Failure::Kind::out_of_memory, error.what()};
  } catch (const DiskError& error) {
    return Failure{Failure::Kind::disk_error, error.what()};
  } catch (const InputError& error) {
    return Failure{Failure::Kind::input_error, error.what()};
  } catch (const RankLate& error) {
    return Failure{Failure::Kind::rank_failed, error.what(), error.rank()};
  } catch (const RankFailed& error) {
    return Failure{Failure::Kind::rank_failed, error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{Failure::Kind::out_of_memory, "out of memory: the system has no memory for a rank's own data"};
  } catch (const std::exception& error) {
    return Failure{Failure::Kind::error, error.what()};
  } catch (...) {
    return Failure{Failure::Kind::error, "an exception that is not a std::exception"};
  }
}

void raise(const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::rank_failed:
      throw RankFailed(failure.why);
    case Failure::Kind::out_of_memory:
      throw OutOfMemory(failure.why);
    case Failure::Kind::input_error:
      throw InputError(failure.why);
    case Failure::Kind::disk_error:
      throw DiskError(failure.why);
    case Failure::Kind::error:
      break;
  }
  throw Error(failure.why);
}

}  // namespace heddle
