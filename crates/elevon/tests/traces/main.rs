//! Tests the commands that read traces: capture, inspect, convert, calibrate, replay, advise.

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod analysis_corpus;
mod calibrate;
mod capture;
mod compare_traces;
mod convert;
mod findings;
mod formats;
mod hostile_traces;
mod inspect;
mod inspect_page;
mod interval;
mod ioprio;
mod replay;
mod replay_exclusion;
mod replay_fill;
mod replay_lacking;
mod requests_parquet;
mod selection;
mod twin;
mod watch;
mod watch_guest;
mod watch_listen;
mod watch_problems;
mod watch_true;
mod what_if;
