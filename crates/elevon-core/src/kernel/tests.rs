use super::*;

#[test]
fn versions_are_read_as_people_write_them() {
    for (name, kernel) in [
        ("6.1", Some(Kernel::V6_1)),
        ("v6.18", Some(Kernel::V6_18)),
        ("6.1.55", Some(Kernel::V6_1)),
        ("6.12.0-18-amd64", Some(Kernel::V6_12)),
        ("6.6.30+", Some(Kernel::V6_6)),
        ("7.3", Some(Kernel::V7_3)),
        ("7.3.4+deb13-amd64", Some(Kernel::V7_3)),
        ("5.10.209", Some(Kernel::V5_10)),
        ("6.10", None),
        ("5.4", None),
        ("6", None),
        ("6.1.x", None),
        ("6.1.2.3", None),
        ("6.18foo", None),
        ("", None),
    ] {
        assert_eq!(Kernel::from_name(name), kernel, "{name}");
    }
    for kernel in Kernel::ALL {
        assert_eq!(Kernel::from_name(kernel.name()), Some(kernel));
    }
}

#[test]
fn what_is_not_modelled_has_a_nearest_version() {
    for (name, words) in [
        ("4.19", "5.10 is the nearest"),
        ("5.12", "5.10 is the one before it, 5.15 the one after it"),
        ("6.8", "6.6 is the one before it, 6.12 the one after it"),
        ("v6.17.3", "6.16 is the one before it, 6.18 the one after it"),
        ("7.4", "7.3 is the nearest"),
        ("latest", "a version is written as"),
    ] {
        assert!(Kernel::instead_of(name).contains(words), "{name}: {}", Kernel::instead_of(name));
    }
}

#[test]
fn versions_are_ordered_by_age() {
    let numbers = Kernel::ALL.map(|kernel| version(kernel.name()).expect("a version"));
    assert!(numbers.is_sorted());
    assert!(Kernel::ALL.is_sorted());
}

#[test]
fn the_rows_are_the_rules() {
    for from in Kernel::ALL {
        for to in Kernel::ALL {
            let (source, mut copy) = (from.rules(), to.rules());
            for row in RULES {
                assert!(row.is_same(&source, &source), "{}", row.name);
                (row.copy)(&source, &mut copy);
            }
            assert_eq!(copy, source, "a field of Rules has no row");
        }
    }
    // Every row differs between two versions, else it would be no rule.
    for row in RULES {
        let differs = Kernel::ALL.windows(2).any(|w| !row.is_same(&w[0].rules(), &w[1].rules()));
        assert!(differs, "{} is the same in all versions", row.name);
    }
}
