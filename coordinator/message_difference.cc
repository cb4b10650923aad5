// SPDX-License-Identifier: Apache-2.0
#include "coordinator/message_difference.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

namespace weir {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Difference = absl::optional<MessageDifference>;

constexpr char kUnset[] = "unset";

// One value of a field: of element `index` where it is repeated, -1 where it is not.
struct Value {
  const Message& message;
  const FieldDescriptor& field;
  int index;

  const Message& Submessage() const {
    const auto* reflection = message.GetReflection();
    return index < 0 ? reflection->GetMessage(message, &field)
                     : reflection->GetRepeatedMessage(message, &field, index);
  }
  std::string Text() const {
    std::string text;
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    printer.PrintFieldValueToString(message, &field, index, &text);
    return text;
  }
};

Difference CompareValues(const std::string& key, const Value& left, const Value& right) {
  if (left.field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Difference inner = FirstDifference(left.Submessage(), right.Submessage());
    if (inner) inner->key = inner->key.empty() ? key : absl::StrCat(key, ".", inner->key);
    return inner;
  }
  std::string left_text = left.Text();
  std::string right_text = right.Text();
  if (left_text == right_text) return absl::nullopt;
  return MessageDifference{key, std::move(left_text), std::move(right_text)};
}

std::map<std::string, int> MapEntries(const Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  const FieldDescriptor* key_field = field.message_type()->map_key();
  std::map<std::string, int> entries;
  for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, &field, i);
    std::string key = key_field->cpp_type() == FieldDescriptor::CPPTYPE_STRING
                          ? entry.GetReflection()->GetString(entry, key_field)
                          : Value{entry, *key_field, -1}.Text();
    entries.emplace(std::move(key), i);
  }
  return entries;
}

Difference CompareMaps(const Message& left, const Message& right, const FieldDescriptor& field) {
  const std::map<std::string, int> left_entries = MapEntries(left, field);
  const std::map<std::string, int> right_entries = MapEntries(right, field);
  const auto key_of = [&](const std::string& key) {
    return absl::StrCat(field.name(), "[", key, "]");
  };
  for (const auto& [key, index] : left_entries) {
    const auto other = right_entries.find(key);
    if (other == right_entries.end()) return MessageDifference{key_of(key), "set", kUnset};
    const Message& left_entry = left.GetReflection()->GetRepeatedMessage(left, &field, index);
    const Message& right_entry =
        right.GetReflection()->GetRepeatedMessage(right, &field, other->second);
    const FieldDescriptor& value = *field.message_type()->map_value();
    Difference difference =
        CompareValues(key_of(key), {left_entry, value, -1}, {right_entry, value, -1});
    if (difference) return difference;
  }
  for (const auto& [key, index] : right_entries) {
    if (left_entries.count(key) == 0) return MessageDifference{key_of(key), kUnset, "set"};
  }
  return absl::nullopt;
}

Difference CompareRepeated(const Message& left, const Message& right,
                           const FieldDescriptor& field) {
  const int left_size = left.GetReflection()->FieldSize(left, &field);
  const int right_size = right.GetReflection()->FieldSize(right, &field);
  for (int i = 0; i < std::min(left_size, right_size); ++i) {
    const std::string key = absl::StrCat(field.name(), "[", i, "]");
    Difference difference = CompareValues(key, {left, field, i}, {right, field, i});
    if (difference) return difference;
  }
  if (left_size == right_size) return absl::nullopt;
  return MessageDifference{field.name(), absl::StrCat(left_size, " entries"),
                           absl::StrCat(right_size, " entries")};
}

Difference CompareField(const Message& left, const Message& right, const FieldDescriptor& field) {
  if (field.is_map()) return CompareMaps(left, right, field);
  if (field.is_repeated()) return CompareRepeated(left, right, field);
  if (field.has_presence()) {
    const bool left_has = left.GetReflection()->HasField(left, &field);
    const bool right_has = right.GetReflection()->HasField(right, &field);
    if (!left_has && !right_has) return absl::nullopt;
    if (left_has != right_has) {
      const auto text = [&](const Message& message, bool has) -> std::string {
        return has ? Value{message, field, -1}.Text() : kUnset;
      };
      return MessageDifference{field.name(), text(left, left_has), text(right, right_has)};
    }
  }
  return CompareValues(field.name(), {left, field, -1}, {right, field, -1});
}

}  // namespace

Difference FirstDifference(const Message& left, const Message& right) {
  const auto* descriptor = left.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    Difference difference = CompareField(left, right, *descriptor->field(i));
    if (difference) return difference;
  }
  return absl::nullopt;
}

}  // namespace weir
