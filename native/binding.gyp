{
  "targets": [
    {
      "target_name": "kvcr_nixl",
      "sources": [
        "src/addon.cc",
        "src/agent_binding.cc",
        "src/completion_thread.cc",
        "src/engine.cc",
        "src/glibc_floor.cc",
        "src/loop_poller.cc",
        "src/memory.cc",
        "src/shared_name.cc",
        "src/nixl_agent.cc",
        "src/nixl_library.cc",
        "src/notifications.cc",
        "src/region_binding.cc",
        "src/transfers.cc"
      ],
      "include_dirs": ["<!(node -p \"process.env.KVCR_NODE_ADDON_API\")"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "cflags": ["-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc": ["-std=gnu++17", "-fexceptions", "-include", "<(module_root_dir)/src/glibc_floor.h"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++20", "-std=gnu++17"],
      "ldflags": ["-Wl,-z,now"],
      "libraries": ["-ldl", "-lpthread"]
    }
  ]
}
