#include "experiments/config/outline.h"

#include <algorithm>
#include <utility>

#include "framework/error.h"

namespace heddle {
namespace {

using Kind = Node::Kind;

template <class T>
Value list_value(const std::vector<T>& items) {
  Array array;
  for (const T& item : items) {
    if constexpr (std::is_same_v<T, double>) {
      array.push_back({Real{item, ""}});
    } else {
      array.push_back({item});
    }
  }
  return {std::move(array)};
}

Value subset_value(unsigned chosen, std::span<const std::string_view> names, std::string_view all) {
  Array array;
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((chosen >> i & 1U) != 0) array.push_back({std::string(names[i])});
  if (array.size() == names.size()) return {std::string(all)};
  return {std::move(array)};
}

class Outliner final : public Describer {
 public:
  Outliner(Node& object, Scope scope, std::vector<const Node*>& lists)
      : object_(object), scope_(scope), lists_(lists) {}

  void field(Key key, bool& value, std::string_view help) override { leaf(key, Kind::boolean, {value}, help); }
  void field(Key key, std::int64_t& value, Range range, std::string_view help) override {
    leaf(key, Kind::integer, {value}, help).each = range;
  }
  void field(Key key, double& value, Range range, std::string_view help) override {
    leaf(key, Kind::number, {Real{value, ""}}, help).each = range;
  }
  void field(Key key, std::string& value, std::string_view help) override { leaf(key, Kind::text, {value}, help); }
  void field(Key key, std::vector<std::int64_t>& value, Range each, Range length, std::string_view help) override {
    Node& node = leaf(key, Kind::integers, list_value(value), help);
    bounded(node, each, length);
    node.first.assign(key.first.values.begin(), key.first.values.end());
  }
  void field(Key key, std::vector<double>& value, Range each, Range length, std::string_view help) override {
    bounded(leaf(key, Kind::numbers, list_value(value), help), each, length);
  }
  void field(Key key, std::vector<std::string>& value, Range length, std::string_view help) override {
    bounded(leaf(key, Kind::texts, list_value(value), help), any_number(), length);
  }
  void choice(Key key, int& value, std::span<const std::string_view> names, std::string_view help) override {
    const bool is_named = value >= 0 && value < static_cast<int>(names.size());
    Node& node = leaf(key, Kind::choice, {is_named ? std::string(names[static_cast<std::size_t>(value)]) : ""}, help);
    node.names.assign(names.begin(), names.end());
  }
  void subset(Key key, unsigned& value, std::span<const std::string_view> names, std::string_view all,
              std::size_t least, std::string_view help) override {
    Node& node = leaf(key, Kind::subset, subset_value(value, names, all), help);
    node.names.assign(names.begin(), names.end());
    node.all = all;
    node.min_names = least;
  }
  void object(Key key, const Body& body, std::string_view help) override { visit(add(key, Kind::object, help), body); }
  void optional_object(Key key, bool& present, const Body& body, std::string_view help) override {
    Node& node = add(key, Kind::object, help);
    node.is_optional = true;
    node.is_present = present;
    if (present || scope_ == Scope::everything) visit(node, body);
  }
  void list(Key key, const List& value, Range length, std::string_view help) override {
    Node& node = add(key, Kind::list, help);
    node.length = length;
    node.identity = value.identity;
    for (std::size_t i = 0; i < value.size(); ++i) {
      Node& item = node.items.emplace_back();
      Outliner inner(item, Scope::chosen, lists_);
      value.element(inner, i);
    }
    if (scope_ == Scope::chosen) return;
    for (const Node* const enclosing : lists_) {
      if (enclosing->identity == node.identity) node.same_as = enclosing;
    }
    if (node.same_as != nullptr) return;
    lists_.push_back(&node);
    visit(node.blank.emplace_back(), value.blank);
    lists_.pop_back();
  }
  void object_or_list(Key key, const List& value, Range length, std::string_view help) override {
    Node& node = add(key, Kind::object, help);
    node.may_be_list = true;
    node.length = length;
    visit(node, [&](Describer& inner) { value.element(inner, 0); });
    if (value.size() == 1) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      Outliner inner(node.items.emplace_back(), Scope::chosen, lists_);
      value.element(inner, i);
    }
  }
  void alternatives(int& type, std::span<const Alternative> kinds, std::string_view help) override {
    if (object_.is_tagged()) fail<Error>("an object is described with two sets of alternatives");
    check_new("type");
    object_.type = type;
    object_.type_help = help;
    for (const Alternative& kind : kinds) {
      object_.alternatives.push_back({std::string(kind.type), std::string(kind.help), {}});
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (scope_ == Scope::chosen && static_cast<int>(i) != type) continue;
      std::list<Node>& fields = object_.alternatives[i].fields;
      fields_ = &fields;
      kinds[i].body(*this);
    }
    fields_ = nullptr;
  }

 private:
  Node& add(const Key& key, Kind kind, std::string_view help) {
    check_new(key.name);
    if (object_.is_tagged() && key.name == "type") fail<Error>("an object with alternatives describes \"type\" itself");
    Node& node = (fields_ == nullptr ? object_.fields : *fields_).emplace_back();
    node.kind = kind;
    node.name = key.name;
    node.help = help;
    node.is_required = key.is_required;
    return node;
  }
  Node& leaf(const Key& key, Kind kind, Value value, std::string_view help) {
    Node& node = add(key, kind, help);
    node.value = std::move(value);
    return node;
  }
  static void bounded(Node& node, Range each, Range length) {
    node.each = each;
    node.length = length;
  }
  void visit(Node& node, const Body& body) {
    Outliner inner(node, scope_, lists_);
    body(inner);
  }
  void check_new(std::string_view name) const {
    const auto is_same = [&](const Node& node) { return node.name == name; };
    const auto holds = [&](const std::list<Node>& fields) {
      return std::any_of(fields.begin(), fields.end(), is_same);
    };
    bool is_known = holds(object_.fields) || (fields_ != nullptr && holds(*fields_));
    if (fields_ == nullptr) {
      for (const Node::Alternative& kind : object_.alternatives) is_known = is_known || holds(kind.fields);
    }
    if (is_known) fail<Error>("the key \"{}\" is described twice", name);
  }

  Node& object_;
  std::list<Node>* fields_ = nullptr;  // the fields of the alternative being described
  Scope scope_;
  std::vector<const Node*>& lists_;  // the lists around, so that one inside itself ends
};

}  // namespace

const Node::Alternative* Node::alternative(std::string_view wanted) const {
  for (const Alternative& candidate : alternatives) {
    if (candidate.type == wanted) return &candidate;
  }
  return nullptr;
}

const Node* Node::field(std::string_view wanted, std::string_view of_type) const {
  const auto search = [&](const std::list<Node>& nodes) -> const Node* {
    for (const Node& node : nodes) {
      if (node.name == wanted) return &node;
    }
    return nullptr;
  };
  if (const Node* const found = search(fields)) return found;
  const Alternative* const chosen = alternative(of_type);
  return chosen == nullptr ? nullptr : search(chosen->fields);
}

std::string_view Node::type_name() const {
  if (type < 0 || type >= static_cast<int>(alternatives.size())) return {};
  return alternatives[static_cast<std::size_t>(type)].type;
}

Node outline(const Describer::Body& body, Scope scope) {
  Node root;
  std::vector<const Node*> lists;
  Outliner outliner(root, scope, lists);
  body(outliner);
  return root;
}

Value to_value(const Node& node) {
  if (node.kind == Kind::list || !node.items.empty()) {
    Array array;
    for (const Node& item : node.items) array.push_back(to_value(item));
    return {std::move(array)};
  }
  if (node.kind != Kind::object) return node.value;
  if (!node.is_present) return {nullptr};
  Object object;
  if (const std::string_view type = node.type_name(); !type.empty()) object.push_back({"type", {std::string(type)}});
  const auto add = [&](const std::list<Node>& fields) {
    for (const Node& field : fields) object.push_back({field.name, to_value(field)});
  };
  add(node.fields);
  if (const Node::Alternative* const chosen = node.alternative(node.type_name())) add(chosen->fields);
  return {std::move(object)};
}

}  // namespace heddle
