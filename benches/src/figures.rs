//! Samples, pairs of them, and how they are shown.

use std::time::Duration;

/// Latencies of one round, or how many operations it made.
#[derive(Default, Clone)]
pub(crate) struct Sample {
    latencies: Vec<Duration>,
    rate: f64,
}

impl Sample {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.latencies.push(latency);
    }

    pub(crate) fn of_rate(operations: u64, time: Duration) -> Self {
        Self {
            latencies: Vec::new(),
            rate: operations as f64 / time.as_secs_f64(),
        }
    }

    /// What another program measured, in ns.
    pub(crate) fn of_latencies(nanos: impl Iterator<Item = u64>) -> Self {
        Self {
            latencies: nanos.map(Duration::from_nanos).collect(),
            rate: 0.0,
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() - 1) as f64 * q) as usize;
        sorted[at].as_nanos() as f64 / 1000.0
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The rival and ours, round by round.
pub(crate) struct Pair {
    name: &'static str,
    labels: [&'static str; 2],
    rounds: usize,
    rival: Vec<Sample>,
    ours: Vec<Sample>,
}

impl Pair {
    pub(crate) fn new(name: &'static str, rounds: usize) -> Self {
        Self {
            name,
            labels: ["bare ping-pong", "call"],
            rounds,
            rival: Vec::new(),
            ours: Vec::new(),
        }
    }

    /// What the two sides are called.
    pub(crate) fn of(mut self, rival: &'static str, ours: &'static str) -> Self {
        self.labels = [rival, ours];
        self
    }

    pub(crate) fn run(
        mut self,
        mut rival: impl FnMut() -> Sample,
        mut ours: impl FnMut() -> Sample,
    ) -> Self {
        // The first of each is for warming up.
        rival();
        ours();
        for _ in 0..self.rounds {
            self.rival.push(rival());
            self.ours.push(ours());
        }
        self
    }

    /// The median of the ratios of neighbouring rounds.
    fn ratio(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let rounds = self.ours.iter().zip(&self.rival);
        median(rounds.map(|(ours, rival)| of(ours) / of(rival)))
    }

    pub(crate) fn print_latency(&self, goal: f64) {
        println!("{}", self.name);
        for (label, samples) in self.labels.into_iter().zip([&self.rival, &self.ours]) {
            println!(
                "  {label:<16} median {:7.2} us   p99 {:7.2} us",
                median(samples.iter().map(|s| s.quantile(0.5))),
                median(samples.iter().map(|s| s.quantile(0.99)))
            );
        }
        println!(
            "  ratio            {:.2} x   (goal: {goal} x)\n",
            self.ratio(|s| s.quantile(0.5))
        );
    }

    pub(crate) fn print_rate(&self) {
        println!("{}", self.name);
        for (label, samples) in ["bare frames", "calls"]
            .into_iter()
            .zip([&self.rival, &self.ours])
        {
            let rate = median(samples.iter().map(|s| s.rate));
            println!("  {label:<16} {rate:10.0} a second");
        }
        println!(
            "  ratio            {:.2} x   (goal: 300,000 calls a second)\n",
            self.ratio(|s| s.rate)
        );
    }
}
