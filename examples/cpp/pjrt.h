// The part of the PJRT C API that runs a program, as C++ values. Every failure is a std::runtime_error with the plugin's text.

#ifndef TEUCER_EXAMPLES_CPP_PJRT_H_
#define TEUCER_EXAMPLES_CPP_PJRT_H_

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

namespace pjrt {

// The names that `teucer export --args` uses too, and bytes an element.
struct TypeRow {
  const char* name;
  PJRT_Buffer_Type type;
  size_t bytes;
};
inline constexpr TypeRow kTypes[] = {
    {"bool", PJRT_Buffer_Type_PRED, 1}, {"i8", PJRT_Buffer_Type_S8, 1},   {"i16", PJRT_Buffer_Type_S16, 2},
    {"i32", PJRT_Buffer_Type_S32, 4},   {"i64", PJRT_Buffer_Type_S64, 8}, {"u8", PJRT_Buffer_Type_U8, 1},
    {"u16", PJRT_Buffer_Type_U16, 2},   {"u32", PJRT_Buffer_Type_U32, 4}, {"u64", PJRT_Buffer_Type_U64, 8},
    {"f16", PJRT_Buffer_Type_F16, 2},   {"bf16", PJRT_Buffer_Type_BF16, 2}, {"f32", PJRT_Buffer_Type_F32, 4},
    {"f64", PJRT_Buffer_Type_F64, 8},   {"c64", PJRT_Buffer_Type_C64, 8}, {"c128", PJRT_Buffer_Type_C128, 16},
};

inline const TypeRow& Row(PJRT_Buffer_Type type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row;
  throw std::runtime_error("a type without a name here: PJRT_Buffer_Type " + std::to_string(static_cast<int>(type)));
}
inline const char* Name(PJRT_Buffer_Type type) { return Row(type).name; }
inline size_t Bytes(PJRT_Buffer_Type type) { return Row(type).bytes; }
inline PJRT_Buffer_Type TypeNamed(const std::string& name) {
  for (const TypeRow& row : kTypes)
    if (name == row.name) return row.type;
  throw std::runtime_error("no type is named '" + name + "'");
}

// An array in the memory of the host, in row-major order.
struct Host {
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  std::vector<char> bytes;

  size_t size() const {
    size_t count = 1;
    for (int64_t dim : dims) count *= static_cast<size_t>(dim);
    return count;
  }
};

// Arguments of a function of the C API: they begin with their own size, and the rest is zero.
template <typename Args>
Args Sized(size_t size) {
  Args args{};
  args.struct_size = size;
  return args;
}
#define PJRT_ARGS(Name) ::pjrt::Sized<Name>(Name##_STRUCT_SIZE)

inline void Check(const PJRT_Api* api, PJRT_Error* error) {
  if (error == nullptr) return;
  auto text = PJRT_ARGS(PJRT_Error_Message_Args);
  text.error = error;
  api->PJRT_Error_Message(&text);
  const std::string message(text.message, text.message_size);
  auto gone = PJRT_ARGS(PJRT_Error_Destroy_Args);
  gone.error = error;
  api->PJRT_Error_Destroy(&gone);
  throw std::runtime_error(message);
}

inline void Await(const PJRT_Api* api, PJRT_Event* event) {
  auto args = PJRT_ARGS(PJRT_Event_Await_Args);
  args.event = event;
  PJRT_Error* error = api->PJRT_Event_Await(&args);
  auto gone = PJRT_ARGS(PJRT_Event_Destroy_Args);
  gone.event = event;
  api->PJRT_Event_Destroy(&gone);
  Check(api, error);
}

// A buffer of a device; it is let go with this object.
class Buffer {
 public:
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (buffer_ == nullptr) return;
    auto gone = PJRT_ARGS(PJRT_Buffer_Destroy_Args);
    gone.buffer = buffer_;
    api_->PJRT_Buffer_Destroy(&gone);
  }

  PJRT_Buffer* get() const { return buffer_; }

  Host ToHost() const {
    Host host;
    auto type = PJRT_ARGS(PJRT_Buffer_ElementType_Args);
    type.buffer = buffer_;
    Check(api_, api_->PJRT_Buffer_ElementType(&type));
    host.type = type.type;
    auto dims = PJRT_ARGS(PJRT_Buffer_Dimensions_Args);
    dims.buffer = buffer_;
    Check(api_, api_->PJRT_Buffer_Dimensions(&dims));
    host.dims.assign(dims.dims, dims.dims + dims.num_dims);
    host.bytes.resize(host.size() * Bytes(host.type));
    if (host.bytes.empty()) return host;
    // Devices may hold an array in another order of axes: row-major is asked for.
    std::vector<int64_t> minor_to_major;
    for (size_t axis = host.dims.size(); axis-- > 0;) minor_to_major.push_back(static_cast<int64_t>(axis));
    auto layout = PJRT_ARGS(PJRT_Buffer_MemoryLayout);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled = PJRT_ARGS(PJRT_Buffer_MemoryLayout_Tiled);
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = minor_to_major.size();
    auto copy = PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args);
    copy.src = buffer_;
    copy.host_layout = &layout;
    copy.dst = host.bytes.data();
    copy.dst_size = host.bytes.size();
    Check(api_, api_->PJRT_Buffer_ToHostBuffer(&copy));
    Await(api_, copy.event);
    return host;
  }

 private:
  const PJRT_Api* api_;
  PJRT_Buffer* buffer_;
};

// A compiled program. It must not outlive its client.
class Program {
 public:
  Program(const PJRT_Api* api, PJRT_Client* client, PJRT_Device* device, PJRT_LoadedExecutable* loaded)
      : api_(api), client_(client), device_(device), loaded_(loaded) {}
  Program(Program&& other) noexcept
      : api_(other.api_), client_(other.client_), device_(other.device_), loaded_(std::exchange(other.loaded_, nullptr)) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (loaded_ == nullptr) return;
    auto gone = PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args);
    gone.executable = loaded_;
    api_->PJRT_LoadedExecutable_Destroy(&gone);
  }

  // On arrays of the host.
  std::vector<Host> operator()(const std::vector<Host>& arguments) const {
    std::vector<Buffer> held;
    for (const Host& host : arguments) held.push_back(Put(host));
    std::vector<Host> results;
    for (const Buffer& result : Run(held)) results.push_back(result.ToHost());
    return results;
  }

  // On arrays of the device, which stay there: what a loop of many steps would call.
  std::vector<Buffer> Run(const std::vector<Buffer>& arguments) const {
    std::vector<PJRT_Buffer*> in;
    for (const Buffer& buffer : arguments) in.push_back(buffer.get());
    std::vector<PJRT_Buffer*> out(NumOutputs(), nullptr);
    PJRT_Buffer* const* in_lists[] = {in.data()};
    PJRT_Buffer** out_lists[] = {out.data()};
    PJRT_Event* done[] = {nullptr};
    auto options = PJRT_ARGS(PJRT_ExecuteOptions);
    auto args = PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args);
    args.executable = loaded_;
    args.options = &options;
    args.argument_lists = in_lists;
    args.num_devices = 1;
    args.num_args = in.size();
    args.output_lists = out_lists;
    args.device_complete_events = done;
    Check(api_, api_->PJRT_LoadedExecutable_Execute(&args));
    std::vector<Buffer> results;
    for (PJRT_Buffer* buffer : out) results.emplace_back(api_, buffer);
    Await(api_, done[0]);
    return results;
  }

  Buffer Put(const Host& host) const {
    auto args = PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args);
    args.client = client_;
    args.data = host.bytes.data();
    args.type = host.type;
    args.dims = host.dims.data();
    args.num_dims = host.dims.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = device_;
    Check(api_, api_->PJRT_Client_BufferFromHostBuffer(&args));
    Buffer buffer(api_, args.buffer);
    Await(api_, args.done_with_host_buffer);
    return buffer;
  }

 private:
  size_t NumOutputs() const {
    auto get = PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args);
    get.loaded_executable = loaded_;
    Check(api_, api_->PJRT_LoadedExecutable_GetExecutable(&get));
    auto count = PJRT_ARGS(PJRT_Executable_NumOutputs_Args);
    count.executable = get.executable;
    PJRT_Error* error = api_->PJRT_Executable_NumOutputs(&count);
    auto gone = PJRT_ARGS(PJRT_Executable_Destroy_Args);
    gone.executable = get.executable;
    api_->PJRT_Executable_Destroy(&gone);
    Check(api_, error);
    return count.num_outputs;
  }

  const PJRT_Api* api_;
  PJRT_Client* client_;
  PJRT_Device* device_;
  PJRT_LoadedExecutable* loaded_;
};

// The devices of a plugin. The plugin stays loaded until the process ends.
class Client {
 public:
  explicit Client(const std::string& plugin) {
    void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
    if (get == nullptr) throw std::runtime_error(plugin + " is no PJRT plugin: it has no function GetPjrtApi");
    api_ = get();
    const PJRT_Api_Version& version = api_->pjrt_api_version;
    if (version.major_version != PJRT_API_MAJOR)
      throw std::runtime_error(plugin + " speaks PJRT " + std::to_string(version.major_version) + "." +
                               std::to_string(version.minor_version) + ", and this program major version " +
                               std::to_string(PJRT_API_MAJOR));
    auto initialize = PJRT_ARGS(PJRT_Plugin_Initialize_Args);
    Check(api_, api_->PJRT_Plugin_Initialize(&initialize));
    auto create = PJRT_ARGS(PJRT_Client_Create_Args);
    Check(api_, api_->PJRT_Client_Create(&create));
    client_ = create.client;
    auto devices = PJRT_ARGS(PJRT_Client_AddressableDevices_Args);
    devices.client = client_;
    Check(api_, api_->PJRT_Client_AddressableDevices(&devices));
    if (devices.num_addressable_devices == 0) throw std::runtime_error(plugin + " has no device here");
    device_ = devices.addressable_devices[0];
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (client_ == nullptr) return;
    auto gone = PJRT_ARGS(PJRT_Client_Destroy_Args);
    gone.client = client_;
    api_->PJRT_Client_Destroy(&gone);
  }

  // A module of StableHLO, as text or in the portable form, for one device.
  Program Compile(std::vector<char> code) const {
    if (code.empty()) throw std::runtime_error("the program is empty");  // plugins crash on it
    // CompileOptionsProto {executable_build_options {num_replicas: 1 num_partitions: 1}}, serialized.
    static const char options[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};
    auto program = PJRT_ARGS(PJRT_Program);
    program.code = code.data();
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    auto args = PJRT_ARGS(PJRT_Client_Compile_Args);
    args.client = client_;
    args.program = &program;
    args.compile_options = options;
    args.compile_options_size = sizeof(options);
    Check(api_, api_->PJRT_Client_Compile(&args));
    return Program(api_, client_, device_, args.executable);
  }

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Client* client_ = nullptr;
  PJRT_Device* device_ = nullptr;
};

}  // namespace pjrt

#endif  // TEUCER_EXAMPLES_CPP_PJRT_H_
