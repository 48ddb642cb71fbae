//! Proves that `elevon-core` and `elevon-cache` need no operating system.
//!
//! This library has its own allocator and panic handler. If one of the crates, or anything that it
//! links, used `std`, there would be two panic handlers and the build would fail. `.ci/run` builds
//! it; it is never run.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use elevon_cache::page_cache::{CacheConfig, PageCache};
use elevon_core::kernel::Kernel;
use elevon_core::units::{Bytes, TaskId};

struct NoMemory;

// SAFETY: returning a null pointer is allowed; it means that no memory is available.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _memory: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn on_panic(_info: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// References both crates, so that the linker keeps them.
#[unsafe(no_mangle)]
pub extern "C" fn elevon_no_os() -> usize {
    let cache = PageCache::new(CacheConfig::new(Bytes::new(1 << 20), TaskId(0)));
    core::mem::size_of_val(&*Box::new(Kernel::default().rules())) + usize::from(cache.is_idle())
}
