//! Proof that `elevon-core` and `elevon-cache` need no operating system.
//!
//! This library brings its own allocator and panic handler. If one of them, or anything that it
//! links, used `std`, there would be two panic handlers and the compiler would refuse to build it.
//! `.ci/run` builds it; it is never run.
#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use elevon_cache::page_cache::{CacheConfig, PageCache};
use elevon_core::kernel::Kernel;
use elevon_core::units::{Bytes, TaskId};

struct NoMemory;

// SAFETY: a null pointer is the defined answer of an allocator that has no memory.
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

/// Makes the linker keep both.
#[unsafe(no_mangle)]
pub extern "C" fn elevon_no_os() -> usize {
    let cache = PageCache::new(CacheConfig::new(Bytes::new(1 << 20), TaskId(0)));
    core::mem::size_of_val(&*Box::new(Kernel::default().rules())) + usize::from(cache.is_idle())
}
