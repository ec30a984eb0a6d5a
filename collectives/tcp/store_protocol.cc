#include "collectives/tcp/store_protocol.h"

#include <concepts>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace muonshard {
namespace {

constexpr absl::string_view kClientMagic = "mshstore";
constexpr absl::string_view kServerMagic = "MSHSTORE";
constexpr size_t kLengthBytes = 4;
// Of a frame's type and id.
constexpr size_t kFrameBytesMin = 1 + 8;

absl::string_view MagicOf(StoreSide side) {
  return side == StoreSide::kClient ? kClientMagic : kServerMagic;
}

template <std::integral T>
void AppendNumber(T number, std::string& bytes) {
  const auto bits = static_cast<uint64_t>(number);
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
  }
}

void AppendText(absl::string_view text, std::string& bytes) {
  bytes.append(text.data(), text.size());
}

// The number that `bytes` begins with, which are at least as many.
template <std::integral T>
T NumberAt(absl::string_view bytes) {
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bits |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return static_cast<T>(bits);
}

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("store protocol: ", what));
}

// Takes parts off the front of a frame. After a part that is not there all
// further ones are empty and `ok` is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

  template <std::integral T>
  T Number() {
    const absl::string_view part = Text(sizeof(T));
    return ok_ ? NumberAt<T>(part) : T{0};
  }

  absl::string_view Text(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const absl::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }

  absl::string_view Rest() { return Text(bytes_.size()); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

// `content` is what follows the length.
std::string WithLength(const std::string& content) {
  std::string frame;
  frame.reserve(kLengthBytes + content.size());
  AppendNumber(static_cast<uint32_t>(content.size()), frame);
  return frame + content;
}

template <typename Type>
absl::Status CheckFrame(absl::string_view what, Type type, bool whole) {
  if (whole) return absl::OkStatus();
  return Broken(absl::StrCat(what, " of type ", static_cast<int>(type),
                             " is not what such a frame holds"));
}

}  // namespace

std::string EncodeGreeting(StoreSide side, absl::string_view nonce) {
  std::string bytes(MagicOf(side));
  AppendNumber(kStoreProtocolVersion, bytes);
  AppendText(nonce, bytes);
  return bytes;
}

absl::StatusOr<StoreGreeting> ParseGreeting(StoreSide side,
                                            absl::string_view bytes) {
  Reader reader(bytes);
  const absl::string_view magic = reader.Text(MagicOf(side).size());
  StoreGreeting greeting;
  greeting.version = reader.Number<uint32_t>();
  greeting.nonce = reader.Text(kStoreNonceBytes);
  if (!reader.at_end() || magic != MagicOf(side)) {
    return Broken("it does not begin with a greeting");
  }
  return greeting;
}

std::string EncodeVerdictTerms(StoreAdmission admission,
                               uint64_t value_bytes_max) {
  std::string bytes;
  AppendNumber(static_cast<uint8_t>(admission), bytes);
  AppendNumber(value_bytes_max, bytes);
  return bytes;
}

std::string EncodeVerdict(const StoreVerdict& verdict) {
  std::string bytes =
      EncodeVerdictTerms(verdict.admission, verdict.value_bytes_max);
  AppendText(verdict.proof, bytes);
  return bytes;
}

absl::StatusOr<StoreVerdict> ParseVerdict(absl::string_view bytes) {
  Reader reader(bytes);
  StoreVerdict verdict;
  verdict.admission = static_cast<StoreAdmission>(reader.Number<uint8_t>());
  verdict.value_bytes_max = reader.Number<uint64_t>();
  verdict.proof = reader.Text(kStoreProofBytes);
  if (!reader.at_end() || verdict.admission > StoreAdmission::kTooManyClients) {
    return Broken("its verdict is none");
  }
  return verdict;
}

std::string EncodeRequest(const StoreRequest& request) {
  std::string content;
  AppendNumber(static_cast<uint8_t>(request.type), content);
  AppendNumber(request.id, content);
  switch (request.type) {
    case StoreRequestType::kPut:
      AppendNumber(static_cast<uint16_t>(request.key.size()), content);
      AppendText(request.key, content);
      AppendText(request.value, content);
      break;
    case StoreRequestType::kAdd:
      AppendNumber(request.delta, content);
      [[fallthrough]];
    case StoreRequestType::kGet:
      AppendText(request.key, content);
      break;
    case StoreRequestType::kCancel:
    case StoreRequestType::kGoodbye:
      break;
  }
  return WithLength(content);
}

std::string EncodeReply(const StoreReply& reply) {
  std::string content;
  AppendNumber(static_cast<uint8_t>(reply.type), content);
  AppendNumber(reply.id, content);
  switch (reply.type) {
    case StoreReplyType::kValue:
      AppendText(reply.value, content);
      break;
    case StoreReplyType::kSum:
      AppendNumber(reply.sum, content);
      break;
    case StoreReplyType::kRefused:
      AppendNumber(static_cast<uint8_t>(reply.refusal.code()), content);
      AppendText(reply.refusal.message().substr(0, kStoreTextBytesMax),
                 content);
      break;
    case StoreReplyType::kDone:
    case StoreReplyType::kAbsent:
      break;
  }
  return WithLength(content);
}

absl::StatusOr<StoreRequest> ParseRequest(absl::string_view frame) {
  Reader reader(frame);
  StoreRequest request;
  request.type = static_cast<StoreRequestType>(reader.Number<uint8_t>());
  request.id = reader.Number<uint64_t>();
  switch (request.type) {
    case StoreRequestType::kPut:
      request.key = reader.Text(reader.Number<uint16_t>());
      request.value = reader.Rest();
      break;
    case StoreRequestType::kGet:
      request.key = reader.Rest();
      break;
    case StoreRequestType::kAdd:
      request.delta = reader.Number<int64_t>();
      request.key = reader.Rest();
      break;
    case StoreRequestType::kCancel:
    case StoreRequestType::kGoodbye:
      break;
    default:
      return Broken(absl::StrCat("a request of the unknown type ",
                                 static_cast<int>(request.type)));
  }
  if (absl::Status s = CheckFrame("a request", request.type, reader.at_end());
      !s.ok()) {
    return s;
  }
  return request;
}

absl::StatusOr<StoreReply> ParseReply(absl::string_view frame) {
  Reader reader(frame);
  StoreReply reply;
  reply.type = static_cast<StoreReplyType>(reader.Number<uint8_t>());
  reply.id = reader.Number<uint64_t>();
  bool makes_sense = true;
  switch (reply.type) {
    case StoreReplyType::kValue:
      reply.value = reader.Rest();
      break;
    case StoreReplyType::kSum:
      reply.sum = reader.Number<int64_t>();
      break;
    case StoreReplyType::kRefused: {
      const auto code = static_cast<absl::StatusCode>(reader.Number<uint8_t>());
      reply.refusal = absl::Status(code, reader.Rest());
      makes_sense = !reply.refusal.ok();
      break;
    }
    case StoreReplyType::kDone:
    case StoreReplyType::kAbsent:
      break;
    default:
      return Broken(absl::StrCat("a reply of the unknown type ",
                                 static_cast<int>(reply.type)));
  }
  if (absl::Status s =
          CheckFrame("a reply", reply.type, reader.at_end() && makes_sense);
      !s.ok()) {
    return s;
  }
  return reply;
}

absl::StatusOr<std::optional<absl::string_view>> FirstFrame(
    absl::string_view bytes, size_t frame_bytes_max) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const auto content_bytes = size_t{NumberAt<uint32_t>(bytes)};
  if (content_bytes < kFrameBytesMin ||
      content_bytes > frame_bytes_max - kLengthBytes) {
    return Broken(absl::StrCat("a frame of ", content_bytes, " bytes, want ",
                               kFrameBytesMin, " to ",
                               frame_bytes_max - kLengthBytes));
  }
  const size_t frame_bytes = kLengthBytes + content_bytes;
  if (bytes.size() < frame_bytes) return std::nullopt;
  return bytes.substr(0, frame_bytes);
}

absl::string_view FrameContent(absl::string_view whole_frame) {
  return whole_frame.substr(kLengthBytes);
}

}  // namespace muonshard
