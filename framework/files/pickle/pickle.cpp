#include "framework/files/pickle/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/pickle/pickle_calls.h"
#include "framework/files/pickle/pickle_text.h"

namespace heddle {

/// Reads the operations one after the other, with Python's stack, marks and memo.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::span<const std::uint8_t> file, const std::string& name, PickleContent content)
      : file_(file),
        name_(name),
        store_(pickle, file.size(), content),
        max_values_(file.size() / bytes_per_value(content) + max_values_of_small_files) {}

  void run() {
    std::string_view operation = "the end";
    std::size_t at = 0;
    try {
      while (!has_stopped_) {
        at = at_;
        operation = "the end";
        const std::uint8_t code = take(1).front();
        const Operation* const found = find(code);
        if (found == nullptr) fail<InputError>("0x{:02x} is not an operation of protocols 0 to 5", code);
        operation = found->name;
        check_content(*found);
        found->run(*this);
      }
    } catch (const InputError& error) {
      fail<InputError>("{}: byte {}: {}: {}", name_, at, operation, error.what());
    }
  }

 private:
  struct Operation {
    std::uint8_t code;
    std::string_view name;  // as in Python's pickletools
    void (*run)(PickleMachine&);
    PickleContent content = PickleContent::images;  // the least that needs it
  };

  // The number of values is limited by the bytes of the file, to far more than such contents have: images are long, and
  // a tensor of a state dict has 26 values in 100 bytes.
  static constexpr std::size_t bytes_per_value(PickleContent content) {
    return content == PickleContent::tensors ? 2 : 8;
  }
  // Small files may have this many.
  static constexpr std::size_t max_values_of_small_files = 65536;
  // A list of images in a tuple needs six.
  static constexpr std::size_t max_marks = 64;

  static const Operation* find(std::uint8_t code);

  void check_content(const Operation& operation) const {
    const bool reads_images = store_.content() == PickleContent::images;
    if (operation.run == nullptr || (reads_images && operation.content == PickleContent::tensors))
      fail<InputError>("does not make {}", reads_images ? "strings, lists or arrays" : "a state dict");
  }

  std::span<const std::uint8_t> take(std::uint64_t count) {
    const std::size_t left = file_.size() - at_;
    if (count > left) fail<InputError>("needs {} bytes, but {} are left", count, left);
    at_ += static_cast<std::size_t>(count);
    return file_.subspan(at_ - static_cast<std::size_t>(count), static_cast<std::size_t>(count));
  }

  /// Reads a little-endian number.
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::span<const std::uint8_t> digits = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(digits[i]) << (8 * i);
    return value;
  }

  /// Reads a line and returns it without its end.
  std::string_view line() {
    const std::span<const std::uint8_t> rest = file_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), std::uint8_t{'\n'});
    if (end == rest.end()) fail<InputError>("its line has no end");
    const auto length = static_cast<std::size_t>(end - rest.begin());
    at_ += length + 1;
    return {reinterpret_cast<const char*>(rest.data()), length};
  }

  std::int64_t decimal(std::string_view text) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail<InputError>("expected an integer of 64 bits, got {}", in_quotes(text));
    return value;
  }

  void push(const PickleValue& value) {
    if (++values_ > max_values_) fail<InputError>("more than {} values in {} bytes", max_values_, file_.size());
    stack_.push_back(value);
  }

  void push_real(std::uint64_t bits) { push({PickleKind::real, static_cast<std::int64_t>(bits)}); }
  void push_line_of_real() {
    const std::string_view text = line();
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail<InputError>("expected a number, got {}", in_quotes(text));
    push_real(std::bit_cast<std::uint64_t>(value));
  }
  /// The only number whose bytes are big-endian.
  void push_binary_real() {
    std::uint64_t bits = 0;
    for (const std::uint8_t byte : take(8)) bits = (bits << 8) | byte;
    push_real(bits);
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleValue& top() {
    if (stack_.size() <= floor()) fail<InputError>("the stack is empty");
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) fail<InputError>("there is no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }

  void mark() {
    if (marks_.size() == max_marks) fail<InputError>("more than {} nested marks", max_marks);
    marks_.push_back(stack_.size());
  }

  void push_integer(std::int64_t value) { push({PickleKind::integer, value}); }
  void push_boolean(bool value) { push({PickleKind::boolean, value ? 1 : 0}); }

  /// I01 and I00 are the booleans of the oldest protocols.
  void push_line_of_integer() {
    const std::string_view text = line();
    text == "01" || text == "00" ? push_boolean(text == "01") : push_integer(decimal(text));
  }

  void push_long(std::uint64_t bytes) {
    if (bytes > 8) fail<InputError>("expected an integer of 64 bits, got one of {} bytes", bytes);
    std::uint64_t value = number(static_cast<std::size_t>(bytes));
    const auto bits = static_cast<unsigned>(8 * bytes);
    if (bits > 0 && bits < 64 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_string(PickleKind kind, std::uint64_t bytes) { push(store_.add_string(kind, take(bytes))); }

  void push_items(PickleKind kind, std::vector<PickleValue> items) {
    push(store_.add_sequence(kind, std::move(items)));
  }
  void push_tuple(std::size_t size) {
    std::vector<PickleValue> items(size);
    for (std::size_t i = size; i > 0; --i) items[i - 1] = pop();
    push_items(PickleKind::tuple, std::move(items));
  }

  void append(const std::vector<PickleValue>& items) {
    const PickleValue& list = top();
    if (list.kind != PickleKind::list) fail<InputError>("expected a list, got {}", name_of(list.kind));
    std::vector<PickleValue>& all = store_.sequence(list);
    all.insert(all.end(), items.begin(), items.end());
  }

  void add_items(const std::vector<PickleValue>& items) {
    const PickleValue& dictionary = top();
    if (dictionary.kind != PickleKind::dictionary)
      fail<InputError>("expected a dictionary, got {}", name_of(dictionary.kind));
    if (items.size() % 2 != 0) fail<InputError>("a key of a dictionary has no value");
    std::vector<PickleValue>& all = store_.sequence(dictionary);
    all.insert(all.end(), items.begin(), items.end());
  }

  void memorise(std::uint64_t number) {
    if (number > max_values_) fail<InputError>("memo {} is too high for a file of {} bytes", number, file_.size());
    if (number >= memo_.size()) memo_.resize(static_cast<std::size_t>(number) + 1);
    memo_[static_cast<std::size_t>(number)] = top();
    memos_ = std::max(memos_, number + 1);
  }
  void recall(std::uint64_t number) {
    if (number >= memo_.size() || !memo_[static_cast<std::size_t>(number)])
      fail<InputError>("memo {} was never stored", number);
    push(*memo_[static_cast<std::size_t>(number)]);
  }
  std::uint64_t memo_of_line() { return static_cast<std::uint64_t>(decimal(line())); }

  void push_function() {
    const std::string_view module = line();
    push(pickled_function(store_, module, line()));
  }
  std::string_view pop_name() {
    const PickleValue value = pop();
    if (value.kind != PickleKind::text) fail<InputError>("expected a name, got {}", name_of(value.kind));
    const std::span<const std::uint8_t> bytes = store_.pickle().bytes(value);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void push_named_function() {
    const std::string_view name = pop_name();
    push(pickled_function(store_, pop_name(), name));
  }

  void call() {
    const PickleValue arguments = pop();
    push(pickled_call(store_, pop(), arguments));
  }
  void build() {
    const PickleValue state = pop();
    pickled_build(store_, top(), state);
  }

  void expect_protocol(std::uint64_t protocol) const {
    if (protocol > 5) fail<InputError>("expected a protocol from 0 to 5, got {}", protocol);
  }
  void check_frame(std::uint64_t bytes) const {
    if (bytes > file_.size() - at_) fail<InputError>("needs {} bytes, but {} are left", bytes, file_.size() - at_);
  }

  void stop() {
    store_.set_root(pop());
    has_stopped_ = true;
  }

  std::span<const std::uint8_t> file_;
  const std::string& name_;
  PickleStore store_;
  std::size_t max_values_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::uint64_t memos_ = 0;  // the number that MEMOIZE takes next
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  // the size of the stack at each mark
  std::vector<std::optional<PickleValue>> memo_;
  bool has_stopped_ = false;
};

const PickleMachine::Operation* PickleMachine::find(std::uint8_t code) {
  using M = PickleMachine;
  using enum PickleKind;
  constexpr PickleContent tensors = PickleContent::tensors;
  static constexpr Operation operations[] = {
      {0x80, "PROTO", [](M& m) { m.expect_protocol(m.number(1)); }},
      {0x95, "FRAME", [](M& m) { m.check_frame(m.number(8)); }},
      {'.', "STOP", [](M& m) { m.stop(); }},
      {'(', "MARK", [](M& m) { m.mark(); }},
      {'0', "POP", [](M& m) { (void)m.pop(); }},
      {'1', "POP_MARK", [](M& m) { (void)m.pop_to_mark(); }},
      {'2', "DUP", [](M& m) { m.push(PickleValue(m.top())); }},
      {'N', "NONE", [](M& m) { m.push({}); }},
      {0x88, "NEWTRUE", [](M& m) { m.push_boolean(true); }},
      {0x89, "NEWFALSE", [](M& m) { m.push_boolean(false); }},
      {'I', "INT", [](M& m) { m.push_line_of_integer(); }},
      {'J', "BININT", [](M& m) { m.push_long(4); }},
      {'K', "BININT1", [](M& m) { m.push_integer(static_cast<std::int64_t>(m.number(1))); }},
      {'M', "BININT2", [](M& m) { m.push_integer(static_cast<std::int64_t>(m.number(2))); }},
      {'L', "LONG", [](M& m) { m.push_integer(m.decimal(without_long_suffix(m.line()))); }},
      {0x8a, "LONG1", [](M& m) { m.push_long(m.number(1)); }},
      {0x8b, "LONG4", [](M& m) { m.push_long(m.number(4)); }},
      {'S', "STRING", [](M& m) { m.push(m.store_.add_decoded(bytes, unescaped_string(m.line()))); }},
      {'T', "BINSTRING", [](M& m) { m.push_string(bytes, m.number(4)); }},
      {'U', "SHORT_BINSTRING", [](M& m) { m.push_string(bytes, m.number(1)); }},
      {'V', "UNICODE", [](M& m) { m.push(m.store_.add_decoded(text, unescaped_unicode(m.line()))); }},
      {'X', "BINUNICODE", [](M& m) { m.push_string(text, m.number(4)); }},
      {0x8c, "SHORT_BINUNICODE", [](M& m) { m.push_string(text, m.number(1)); }},
      {0x8d, "BINUNICODE8", [](M& m) { m.push_string(text, m.number(8)); }},
      {'B', "BINBYTES", [](M& m) { m.push_string(bytes, m.number(4)); }},
      {'C', "SHORT_BINBYTES", [](M& m) { m.push_string(bytes, m.number(1)); }},
      {0x8e, "BINBYTES8", [](M& m) { m.push_string(bytes, m.number(8)); }},
      {0x96, "BYTEARRAY8", [](M& m) { m.push_string(bytes, m.number(8)); }},
      {']', "EMPTY_LIST", [](M& m) { m.push_items(list, {}); }},
      {'l', "LIST", [](M& m) { m.push_items(list, m.pop_to_mark()); }},
      {'a', "APPEND",
       [](M& m) {
         const PickleValue item = m.pop();
         m.append({item});
       }},
      {'e', "APPENDS", [](M& m) { m.append(m.pop_to_mark()); }},
      {')', "EMPTY_TUPLE", [](M& m) { m.push_items(tuple, {}); }},
      {'t', "TUPLE", [](M& m) { m.push_items(tuple, m.pop_to_mark()); }},
      {0x85, "TUPLE1", [](M& m) { m.push_tuple(1); }},
      {0x86, "TUPLE2", [](M& m) { m.push_tuple(2); }},
      {0x87, "TUPLE3", [](M& m) { m.push_tuple(3); }},
      {'g', "GET", [](M& m) { m.recall(m.memo_of_line()); }},
      {'h', "BINGET", [](M& m) { m.recall(m.number(1)); }},
      {'j', "LONG_BINGET", [](M& m) { m.recall(m.number(4)); }},
      {'p', "PUT", [](M& m) { m.memorise(m.memo_of_line()); }},
      {'q', "BINPUT", [](M& m) { m.memorise(m.number(1)); }},
      {'r', "LONG_BINPUT", [](M& m) { m.memorise(m.number(4)); }},
      {0x94, "MEMOIZE", [](M& m) { m.memorise(m.memos_); }},
      {'c', "GLOBAL", [](M& m) { m.push_function(); }},
      {0x93, "STACK_GLOBAL", [](M& m) { m.push_named_function(); }},
      {'R', "REDUCE", [](M& m) { m.call(); }},
      {'b', "BUILD", [](M& m) { m.build(); }},
      {'F', "FLOAT", [](M& m) { m.push_line_of_real(); }, tensors},
      {'G', "BINFLOAT", [](M& m) { m.push_binary_real(); }, tensors},
      {'d', "DICT",
       [](M& m) {
         std::vector<PickleValue> items = m.pop_to_mark();
         m.push_items(dictionary, {});
         m.add_items(items);
       },
       tensors},
      {'}', "EMPTY_DICT", [](M& m) { m.push_items(dictionary, {}); }, tensors},
      {'s', "SETITEM",
       [](M& m) {
         const PickleValue value = m.pop();
         const PickleValue key = m.pop();
         m.add_items({key, value});
       },
       tensors},
      {'u', "SETITEMS", [](M& m) { m.add_items(m.pop_to_mark()); }, tensors},
      {'Q', "BINPERSID", [](M& m) { m.push(pickled_storage(m.store_, m.pop())); }, tensors},
      // The other operations of Python are refused.
      {0x8f, "EMPTY_SET", nullptr},
      {0x90, "ADDITEMS", nullptr},
      {0x91, "FROZENSET", nullptr},
      {'i', "INST", nullptr},
      {'o', "OBJ", nullptr},
      {0x81, "NEWOBJ", nullptr},
      {0x92, "NEWOBJ_EX", nullptr},
      {'P', "PERSID", nullptr},
      {0x82, "EXT1", nullptr},
      {0x83, "EXT2", nullptr},
      {0x84, "EXT4", nullptr},
      {0x97, "NEXT_BUFFER", nullptr},
      {0x98, "READONLY_BUFFER", nullptr},
  };
  const auto* const found = std::find_if(std::begin(operations), std::end(operations),
                                         [&](const Operation& operation) { return operation.code == code; });
  return found == std::end(operations) ? nullptr : found;
}

Pickle::Pickle(std::span<const std::uint8_t> file, const std::string& name, PickleContent content) {
  PickleMachine(*this, file, name, content).run();
}

std::string_view name_of(PickleKind kind) {
  static constexpr std::array<std::string_view, 14> names{
      "None",       "a boolean", "an integer", "a text",        "bytes",        "a list",    "a tuple",
      "a function", "a type",    "an array",   "a real number", "a dictionary", "a storage", "a tensor"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace heddle
