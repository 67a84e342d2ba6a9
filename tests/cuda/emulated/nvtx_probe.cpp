// An NVTX listener like Nsight Systems: logs domains, strings and ranges. Tests load it through
// NVTX_INJECTION64_PATH and read its log.
#include <nvtx3/nvToolsExt.h>

#include <deque>
#include <string>

namespace {

std::string log_text;
std::deque<std::string> names;  // of domains and strings; an element's address is the handle

void* remember(const char* name) {
  return &names.emplace_back(name);
}
const std::string& name_of(const void* handle) {
  return *static_cast<const std::string*>(handle);
}

nvtxDomainHandle_t create_domain(const char* name) {
  return static_cast<nvtxDomainHandle_t>(remember(name));
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char* text) {
  log_text += "string " + name_of(domain) + " " + text + "\n";
  return static_cast<nvtxStringHandle_t>(remember(text));
}
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* a) {
  const bool registered = a->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  log_text += "push " + name_of(domain) + " " +
              (registered ? name_of(a->message.registered) : std::string("text ") + a->message.ascii);
  if (a->payloadType == NVTX_PAYLOAD_TYPE_INT32) log_text += " " + std::to_string(a->payload.iValue);
  log_text += "\n";
  return 0;
}
int pop(nvtxDomainHandle_t domain) {
  log_text += "pop " + name_of(domain) + "\n";
  return 0;
}

}  // namespace

extern "C" {

const char* nvtx_probe_log() {
  return log_text.c_str();
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  const auto set = [&](unsigned id, auto* function) {
    if (id < size) *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
}
