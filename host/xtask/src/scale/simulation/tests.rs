//! The simulation beside what is known: waiting times of M/M/1, M/M/c (Erlang C) and M/D/1 (Pollaczek and
//! Khinchine), stations in series (Burke), shards, and Little's law.

use super::{Flow, Network, Outcome, Service, Span, Step, simulate};

/// How many customers come before any is counted, and then: enough for a mean that is right within [`CLOSE`]
/// at the loads below.
const CUSTOMERS: (f64, f64) = (1_000.0, 100_000.0);

/// How far a mean of so many customers may be from the theory's, as a share of it.
const CLOSE: f64 = 0.05;

fn step(stations: std::ops::Range<usize>, service: Service) -> Step {
    Step { stations, service }
}

/// One flow through one station.
fn queue(rate: f64, servers: Option<usize>, service: Service) -> Network {
    Network { stations: vec![servers], flows: vec![Flow { rate, steps: vec![step(0..1, service)] }] }
}

/// For as long as that many customers take to come.
fn span(network: &Network) -> Span {
    let rate: f64 = network.flows.iter().map(|flow| flow.rate).sum();
    Span { warm_up: CUSTOMERS.0 / rate, measured: CUSTOMERS.1 / rate }
}

fn run(network: &Network) -> Outcome {
    simulate(network, span(network), 7)
}

/// How long a customer of M/M/c waits on the mean, by Erlang's formula C.
fn erlang_c_wait(rate: f64, service: f64, servers: usize) -> f64 {
    let (load, c) = (rate * service, servers as f64);
    // The probability that all servers of M/M/c/c are busy, by Erlang's recursion, and from that the one of
    // having to wait.
    let blocked = (1..=servers).fold(1.0, |blocked, n| load * blocked / (n as f64 + load * blocked));
    let waits = blocked / (1.0 - load / c * (1.0 - blocked));
    waits * service / (c - load)
}

#[track_caller]
fn assert_close(found: f64, known: f64) {
    assert!((found - known).abs() <= CLOSE * known, "{found} is not {known}");
}

#[test]
fn erlangs_formula_is_that_of_one_server_for_one_server() {
    // M/M/1: W = ρ / (μ − λ). And a value of the tables: 8 erlangs offered to 10 servers wait with a
    // probability of 0.409.
    assert!((erlang_c_wait(0.5, 1.0, 1) - 1.0).abs() < 1e-12);
    assert!((erlang_c_wait(8.0, 1.0, 10) * 2.0 - 0.409).abs() < 0.001);
}

#[test]
fn customers_of_one_server_and_of_several_wait_as_long_as_erlang_says() {
    for (rate, servers) in [(0.3, 1), (0.6, 1), (1.2, 2), (2.8, 4), (6.0, 8)] {
        let station = &run(&queue(rate, Some(servers), Service::Exponential(1.0))).stations[0];
        assert_close(station.mean_wait, erlang_c_wait(rate, 1.0, servers));
        assert_close(station.utilisation, rate / servers as f64);
    }
}

#[test]
fn constant_service_halves_the_wait() {
    let station = &run(&queue(0.6, Some(1), Service::Constant(1.0))).stations[0];
    assert_close(station.mean_wait, erlang_c_wait(0.6, 1.0, 1) / 2.0);
}

#[test]
fn of_a_hundred_customers_of_one_server_one_waits_longer_than_the_99th_percentile() {
    let (rate, load) = (0.6, 0.6);
    let station = &run(&queue(rate, Some(1), Service::Exponential(1.0))).stations[0];
    // M/M/1: P(W > t) = ρ·e^(−(μ−λ)t).
    let known = (100.0_f64 * load).ln() / (1.0 - rate);
    assert_close(station.p99_wait, known);
}

#[test]
fn the_number_of_customers_is_their_rate_times_their_time() {
    for (servers, service) in [
        (Some(1), Service::Exponential(0.6)),
        (Some(3), Service::Exponential(1.8)),
        (Some(1), Service::Constant(0.6)),
        (None, Service::Exponential(3.0)),
    ] {
        let network = queue(1.0, servers, service);
        let outcome = run(&network);
        let (station, flow) = (&outcome.stations[0], &outcome.flows[0]);
        let rate = flow.completed as f64 / span(&network).measured;
        // Counted over time on one side, and from customer to customer on the other.
        let known = rate * flow.mean_response;
        assert!(
            (station.mean_number - known).abs() < 0.005 * known,
            "{} is not {known}",
            station.mean_number
        );
    }
}

#[test]
fn nobody_waits_for_a_delay() {
    let station = &run(&queue(5.0, None, Service::Exponential(2.0))).stations[0];
    assert!(station.mean_wait.abs() < 1e-12 && station.p99_wait.abs() < 1e-12);
    assert_close(station.mean_number, 10.0);
}

#[test]
fn stations_in_series_wait_as_if_each_were_alone() {
    let steps = vec![step(0..1, Service::Exponential(0.6)), step(1..2, Service::Exponential(1.4))];
    let outcome = run(&Network { stations: vec![Some(1), Some(2)], flows: vec![Flow { rate: 1.0, steps }] });
    let (first, second) = (erlang_c_wait(1.0, 0.6, 1), erlang_c_wait(1.0, 1.4, 2));
    assert_close(outcome.stations[0].mean_wait, first);
    assert_close(outcome.stations[1].mean_wait, second);
    assert_close(outcome.flows[0].mean_response, first + second + 2.0);
}

#[test]
fn several_flows_and_shards_share_the_load() {
    let flow = |rate| Flow { rate, steps: vec![step(0..3, Service::Exponential(1.0))] };
    let outcome = run(&Network { stations: vec![Some(1); 3], flows: vec![flow(0.5), flow(1.0)] });
    for shard in &outcome.stations {
        assert_close(shard.utilisation, 0.5);
        assert_close(shard.mean_wait, erlang_c_wait(0.5, 1.0, 1));
    }
}

#[test]
fn more_work_than_servers_can_do_piles_up() {
    let network = queue(2.0, Some(1), Service::Constant(1.0));
    let span = Span { warm_up: 0.0, measured: 1_000.0 };
    let station = &simulate(&network, span, 7).stations[0];
    assert!(station.still_waiting > 800, "{station:?}");
    assert!(station.utilisation > 0.99, "{station:?}");
}

#[test]
fn a_seed_decides_everything() {
    let network = queue(0.6, Some(1), Service::Exponential(1.0));
    let span = Span { warm_up: 10.0, measured: 100.0 };
    assert_eq!(simulate(&network, span, 1), simulate(&network, span, 1));
    assert_ne!(simulate(&network, span, 1), simulate(&network, span, 2));
}
