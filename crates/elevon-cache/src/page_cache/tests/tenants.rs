//! Write-back by tenant: which tenant pays, which is slowed, and that one tenant's flusher does not
//! delay another's.

use super::*;

const SILVER: TenantId = TenantId(1);
const GOLD: TenantId = TenantId(2);

fn of_tenants(memory: u64, pages: u64) -> (PageCache, OpenId) {
    cache(memory, pages, |config| config.tenant_flushers = 2)
}

fn write(open: OpenId, tenant: TenantId, page: u64, pages: u64) -> Call {
    Call {
        task: TaskId(tenant.0),
        tenant,
        ..call(open, CallKind::Write, page * PAGE, pages * PAGE)
    }
}

fn flush_all(cache: &mut PageCache) {
    cache.flusher.wake();
    cache.reclaim_wants_clean = true;
}

#[test]
fn whoever_made_a_page_dirty_pays_for_its_writing() {
    let (mut cache, open) = of_tenants(64, 4096);
    run(&mut cache, T0, write(open, SILVER, 0, 3));
    run(&mut cache, T0, write(open, GOLD, 2, 3));
    run(&mut cache, T0, write(open, TenantId(0), 5, 1));
    cache.self_check();
    assert_eq!([SILVER, GOLD].map(|tenant| cache.resident().pages().dirty_of(tenant)), [3, 2]);
    flush_all(&mut cache);
    let written = bios(&mut cache, T0);
    let who = |(io, first, pages): &(CacheIo, u64, u64)| {
        (io.tenant, io.task.0 - FLUSHER.0, *first, *pages)
    };
    // Page 2 was dirty already when gold wrote to it. No bio belongs to two tenants.
    assert_eq!(
        written.iter().map(who).collect::<Vec<_>>(),
        [(SILVER, 1, 0, 3), (GOLD, 2, 3, 2), (TenantId(0), 0, 5, 1)]
    );
    assert_eq!([SILVER, GOLD].map(|tenant| cache.domains.writeback(tenant)), [3, 2]);
    written.iter().for_each(|(io, ..)| cache.complete(ms(1), io.token, Status::Ok, Nanos::ZERO));
    cache.self_check();
    assert_eq!([SILVER, GOLD].map(|tenant| cache.domains.writeback(tenant)), [0, 0]);

    // The task that syncs submits the bio, but its tenant does not pay.
    run(&mut cache, ms(1), write(open, SILVER, 0, 1));
    let sync = Call { task: TaskId(2), tenant: GOLD, ..call(open, CallKind::Fsync, 0, 0) };
    assert_eq!(cache.call(ms(1), sync), Called::Wait);
    let synced = bios(&mut cache, ms(1));
    assert_eq!(
        synced.iter().map(|(io, ..)| (io.tenant, io.task)).collect::<Vec<_>>(),
        [(SILVER, TaskId(2))]
    );
}

#[test]
fn a_tenant_whose_flusher_sleeps_does_not_hold_up_another() {
    let (mut cache, open) = of_tenants(64, 4096);
    run(&mut cache, T0, write(open, SILVER, 0, 4));
    run(&mut cache, T0, write(open, GOLD, 4, 4));
    let of_silver = TaskId(FLUSHER.0 + SILVER.0);
    cache.task_blocked(of_silver);
    flush_all(&mut cache);
    let written = bios(&mut cache, T0);
    assert_eq!(
        written.iter().map(|&(io, first, _)| (io.tenant, first)).collect::<Vec<_>>(),
        [(GOLD, 4)]
    );
    let (_, written) = run(&mut cache, T0, write(open, GOLD, 8, 1));
    assert_eq!(written, [(Op::Write, 8, 1)], "nor does it later");
    // The flusher continues: the rest is written, although no other task asks for it.
    cache.reclaim_wants_clean = true;
    cache.task_unblocked(of_silver);
    let written = bios(&mut cache, T0);
    assert_eq!(
        written.iter().map(|&(io, first, _)| (io.tenant, first)).collect::<Vec<_>>(),
        [(SILVER, 0)]
    );
    cache.self_check();
}

/// Silver's bios never complete, gold's complete at once.
#[test]
fn a_tenant_that_is_not_written_stops_and_another_does_not() {
    let (mut cache, open) = of_tenants(64, 1 << 16);
    let limit = cache.dirty_domain().limits(cache.counts().dirtyable).thresh;
    let (mut next, mut paused, mut now) = ([0_u64, 1 << 15], [Nanos::ZERO; 2], T0);
    let mut busy = [false; 2];
    let mut wrote = [0_u64; 2];
    while now < ms(10_000) {
        for (at, tenant) in [SILVER, GOLD].into_iter().enumerate() {
            if busy[at] {
                continue;
            }
            let page = next[at] % (1 << 15) + ((at as u64) << 15);
            next[at] += 8;
            match cache.call(now, write(open, tenant, page, 8)) {
                Called::Done(_) => wrote[at] += 8,
                Called::Wait => busy[at] = true,
            }
        }
        for (io, ..) in bios(&mut cache, now) {
            if io.tenant == GOLD {
                cache.complete(now, io.token, Status::Ok, Nanos::ZERO);
            }
        }
        now = now + Nanos::from_millis(1);
        if cache.next_timer().is_some_and(|at| at <= now) {
            cache.handle_timers(now);
        }
        while let Some(done) = cache.poll_done() {
            let at = done.task.0 as usize - 1;
            (busy[at], paused[at]) = (false, paused[at] + done.paused);
            wrote[at] += 8;
        }
    }
    let held = cache.resident().pages().dirty_of(SILVER) + cache.domains.writeback(SILVER);
    // Until gold has begun, silver is the only tenant that writes.
    let most = limit * 3 / 5;
    assert!(held <= most, "{held} pages of silver's, of a half of {limit}");
    assert!(wrote[0] <= most, "silver wrote {} pages", wrote[0]);
    assert!(
        wrote[1] > 60_000 && paused[1] < Nanos::from_secs(1),
        "gold wrote {} pages, paused {paused:?}",
        wrote[1]
    );
    cache.self_check();
}
