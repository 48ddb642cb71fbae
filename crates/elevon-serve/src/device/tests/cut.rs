//! Clients that are cut off, and the end of a server, while limits hold what they asked for.

use std::sync::mpsc::channel;

use elevon_core::units::Nanos;
use elevon_nbd::{Command, Request};

use super::lab::{Lab, Wire};
use crate::device::message::Message;

const DISK: &str = "slots:slots=8,latency=100us,bandwidth=2GB/s,size=1GiB,queue_depth=64";
const LIMITED: &str = "[tenant.a]\nlimit = { iops = 4 }\n";
const WRITES: u64 = 100;

const fn request(cookie: u64, command: Command, offset: u64, length: u64) -> Request {
    Request { cookie, command, fua: false, df: false, offset, length }
}

/// Asks for many writes, of which the limit lets one go at once.
fn ask_for_writes(lab: &mut Lab, wire: &mut Wire) {
    for at in 0..WRITES {
        wire.ask(&request(at, Command::Write, at * 8192, 4096), &[1; 4096]);
    }
    while wire.transfer() {
        lab.step();
    }
    lab.wait_for(Nanos::from_millis(10));
}

fn written(lab: &Lab) -> usize {
    (0..WRITES).filter(|at| lab.device.engine.backend().peek(at * 8192, 1) == [1]).count()
}

/// Cuts a client as the server does, and returns how many of its requests were not answered.
fn abandon(lab: &mut Lab, client: u32) -> usize {
    let (answer, answered) = channel();
    lab.send.send(Message::Abandon { clients: vec![client, 99], answer }).expect("it is there");
    lab.step();
    let cut = answered.recv().expect("an answer");
    assert_eq!(cut.len(), 1, "only those that are there");
    assert_eq!(cut[0].0, client);
    cut[0].1
}

#[test]
fn what_limits_hold_of_a_client_that_is_cut_is_not_carried_out() {
    let mut lab = Lab::new(DISK, &[], "none", LIMITED);
    let mut wire = lab.open(1, "a");
    ask_for_writes(&mut lab, &mut wire);
    assert!(abandon(&mut lab, 1) > 90);
    wire.hang_up();
    lab.wait_for(Nanos::from_millis(10));
    assert!(!lab.device.tasks.contains_key(&1), "it is forgotten");
    let written_before = written(&lab);
    assert!((1..5).contains(&written_before), "{written_before}");
    lab.wait_for(Nanos::from_secs(60));
    assert_eq!(written(&lab), written_before, "nothing lands afterwards");
}

/// The place in a full server is free again, and the tenant has its rate.
#[test]
fn a_client_that_died_keeps_neither_its_place_nor_its_tenants_budget() {
    let mut lab = Lab::new(DISK, &[], "none", LIMITED);
    let mut wire = lab.open(1, "a");
    ask_for_writes(&mut lab, &mut wire);
    wire.hang_up();
    lab.wait_for(Nanos::from_millis(10));
    assert!(!lab.device.tasks.contains_key(&1), "it is forgotten");
    let (mut next, began) = (lab.open(2, "a"), lab.now());
    assert!(lab.ask(&mut next, &request(1, Command::Read, 0, 4096), &[]));
    let took = lab.now().since(began);
    assert!(took <= Nanos::from_millis(300), "{took:?}");
}

/// It need not wait for the answers.
#[test]
fn what_a_client_asked_for_that_took_leave_is_carried_out() {
    let mut lab = Lab::new(DISK, &[], "none", LIMITED);
    let mut wire = lab.open(1, "a");
    ask_for_writes(&mut lab, &mut wire);
    wire.leave();
    while wire.transfer() {
        lab.step();
    }
    while lab.device.tasks.contains_key(&1) {
        wire.hang_up();
        assert!(lab.step(), "it goes on");
    }
    assert_eq!(written(&lab), WRITES as usize);
}

/// A write of a part of a block waits for one of another client to the same block.
#[test]
fn a_client_that_is_cut_lets_others_change_its_blocks() {
    let mut lab = Lab::new(DISK, &[], "none", "[tenant.a]\nlimit = { bps = 100 }\n[tenant.b]\n");
    let (mut cut_off, mut waits) = (lab.open(1, "a"), lab.open(2, "b"));
    for at in 0..3 {
        cut_off.ask(&request(at, Command::Write, 100, 8), &[1; 8]);
        lab.wait_for(Nanos::from_millis(1));
    }
    waits.ask(&request(9, Command::Write, 104, 8), &[2; 8]);
    lab.wait_for(Nanos::from_millis(10));
    assert!(waits.answer().is_none());
    assert!(abandon(&mut lab, 1) > 0);
    cut_off.hang_up();
    lab.wait_for(Nanos::from_millis(10));
    assert_eq!(waits.answer(), Some((9, true)));
    assert!(!lab.device.tasks.contains_key(&1));
}

#[test]
fn the_end_lets_go_what_limits_hold() {
    for cache in [None, Some(super::lab::cache(1 << 20, elevon_cache::page_cache::WriteMode::Back))]
    {
        let mut lab = match cache {
            None => Lab::new(DISK, &[], "none", LIMITED),
            Some(cache) => Lab::cached(DISK, &[], "none", LIMITED, cache),
        };
        let mut wire = lab.open(1, "a");
        for at in 0..WRITES {
            wire.ask(&request(at, Command::Read, at << 20, 4096), &[]);
        }
        lab.wait_for(Nanos::from_millis(10));
        let began = lab.now();
        lab.send.send(Message::Stop).expect("it is there");
        for _ in 0..WRITES {
            while wire.answer().is_none() {
                assert!(lab.step(), "an answer comes");
            }
        }
        assert!(lab.now().since(began) < Nanos::from_secs(1));
    }
}
