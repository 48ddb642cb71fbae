//! A stack with its device as one machine: I/O is submitted, time passes, and what is done is
//! taken.
//!
//! An [`Engine`] owns a [`Stack`](elevon_core::Stack), which holds all policy, and a [`Backend`],
//! which is a device with its clock. A caller repeats four calls:
//!
//! ```text
//!   submit ──▶ step: completions, timers ──▶ poll_done, poll_unblocked ──▶ wait: time passes
//!     ▲                                                                          │
//!     └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! With a page cache before the stack, a [`CacheUser`] turns file I/O into bios and submits them.
//!
//! The engine has three users:
//!
//! - The loop of a run (`elevon-workload`, `run`) drives the processes of jobs and of traces.
//! - The loop of a served device (`elevon-serve`, `device`) drives the requests of clients.
//! - Programs that embed Elevon drive their own I/O, as the two examples below.
//!
//! The clock is the back end's, so the same loop runs in virtual and in real time. The engine
//! creates no thread, and does nothing except in a call.
//!
//! # A simulated device
//!
//! A thousand reads of 4 KiB from a simulated SSD, eight at a time. Time jumps from one event to
//! the next, so the program ends at once:
//!
//! ```
//! use elevon_core::ioprio::IoPrio;
//! use elevon_core::op::{Flags, Op};
//! use elevon_core::tenant::ROOT;
//! use elevon_core::units::{Bytes, Instant, Sector, TaskId};
//! use elevon_core::{Io, Layout, Stack};
//! use elevon_engine::Engine;
//! use elevon_sim::device::Device;
//! use elevon_sim::simulation::Simulation;
//!
//! let device = elevon_sim::profiles::open("nvme-datacenter", 1)?;
//! let mut stack = Stack::new(device.description().stack_config())?;
//! let layout = stack.register_layout(Layout::contiguous(4096, 0));
//! let (task, op, flags, bytes) = (TaskId(0), Op::Read, Flags::SYNC, Bytes::new(4096));
//! let (ioprio, tenant, write_hint, may_block) = (IoPrio::NONE, ROOT, 0, true);
//! let read = |token: u64| {
//!     let sector = Sector::new(token * 1_000 * 8);
//!     Io { task, token, op, flags, sector, bytes, ioprio, write_hint, tenant, layout, may_block }
//! };
//! let mut engine = Engine::new(stack, Simulation::new(device));
//! for token in 0..8 {
//!     engine.submit(read(token));
//! }
//! let mut done = 0;
//! while done < 1_000 {
//!     engine.wait(Instant::MAX);
//!     let now = engine.now();
//!     engine.step(now);
//!     while let Some(end) = engine.poll_done(now) {
//!         assert!(end.status.is_ok());
//!         done += 1;
//!         if done + 7 < 1_000 {
//!             engine.submit(read(done + 7));
//!         }
//!     }
//! }
//! let micros = engine.now().since(Instant::ZERO).as_micros();
//! assert!((8_000..20_000).contains(&micros), "{micros} us for 125 reads one after the other");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A file
//!
//! A page is written to a real file and read again. The bytes lie in buffers of the back end, one
//! for each token of a task:
//!
//! ```
//! use elevon_core::ioprio::IoPrio;
//! use elevon_core::op::{Flags, Op};
//! use elevon_core::tenant::ROOT;
//! use elevon_core::units::{Bytes, Instant, Sector, TaskId};
//! use elevon_core::{Io, Layout, Stack, StackConfig, Status};
//! use elevon_engine::{Backend, Engine};
//! use elevon_host::interrupt::Interrupt;
//! use elevon_host::{Host, HostFile, OpenOptions};
//!
//! /// Submits an I/O, and waits for its end.
//! fn carry_out(engine: &mut Engine<Host>, io: Io) -> Status {
//!     engine.submit(io);
//!     loop {
//!         let now = engine.now();
//!         engine.step(now);
//!         if let Some(end) = engine.poll_done(now) {
//!             return end.status;
//!         }
//!         assert!(engine.wait(Instant::MAX), "a file answers");
//!     }
//! }
//!
//! let folder = tempfile::tempdir()?;
//! let options = OpenOptions { write: true, direct: false, grow_to: 1 << 20, fill: false };
//! let file = HostFile::open(&folder.path().join("disk.img"), options)?;
//! let config = StackConfig::new(file.limits.clone(), file.size, 1, 32);
//! let mut stack = Stack::new(config)?;
//! let layout = stack.register_layout(Layout::contiguous(4096, 0));
//! let mut engine = Engine::new(stack, Host::new(file, 32, None, Interrupt::new())?);
//! let (task, sector, bytes) = (TaskId(0), Sector::new(64), Bytes::new(4096));
//! let (flags, ioprio, tenant, write_hint) = (Flags::SYNC, IoPrio::NONE, ROOT, 0);
//! let io = |op, token| {
//!     let may_block = true;
//!     Io { task, token, op, flags, sector, bytes, ioprio, write_hint, tenant, layout, may_block }
//! };
//! engine.backend_mut().prepare_buffers(task, 2, 4096);
//! engine.backend_mut().buffer(task, 0).expect("the first buffer").fill(7);
//! assert_eq!(carry_out(&mut engine, io(Op::Write, 0)), Status::Ok);
//! assert_eq!(carry_out(&mut engine, io(Op::Read, 1)), Status::Ok);
//! let read = engine.backend_mut().buffer(task, 1).expect("the second buffer");
//! assert!(read.iter().all(|byte| *byte == 7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod backend;
mod cached;
mod engine;
mod token;

pub use backend::Backend;
pub use cached::{CacheBios, CacheUser};
pub use engine::{Engine, Passed, Span};
pub use token::Token;
