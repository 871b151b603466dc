//! `punctual demo`: a small shop with live traffic.

use super::logs;
use super::serve::{Server, signals};
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::{GlobalOptions, print_line};
use crate::config::{Config, File, Flags};
use crate::demo;
use crate::demo::fakes::FakeProviders;
use punctual::engine::Builder;

/// The number of messages of one topic that the demo handles at once.
const CONCURRENCY: usize = 4;

/// Run a demo: a small shop with live traffic.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Demo {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "PUNCTUAL_LISTEN", value_name = "ADDR")]
    listen: Option<String>,
    /// Allow an address that other machines can reach, although the demo has no login
    #[arg(long)]
    allow_public: bool,
}

impl Demo {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let database = options.database.clone().unwrap_or_else(|| "sqlite::memory:".into());
        let flags = Flags { listen: self.listen, ..Flags::default() };
        let config = Config::decide(Some(database), flags, (None, File::default()))?;
        logs::begin(config.log_format);
        let (config, made) = demo::settings(config, self.allow_public)?;
        let fakes =
            FakeProviders::start().await.map_err(|error| CommandFailure::failed(error.to_string()))?;
        let channels = demo::hotel::channels(&fakes)?;
        let config = Config { channels, ..config };
        let server = Server::open(config, furnish, Some(fakes.clone())).await?;
        fakes.report_to(server.address());
        demo::prepare(server.engine()).await?;
        demo::garage::open(server.engine()).await?;
        demo::hotel::open(server.engine()).await?;
        let asked = signals::asked_to_stop()?;
        welcome(&server, made.as_deref());
        let selling = tokio::spawn(demo::sell(server.engine().clone()));
        let working = tokio::spawn(demo::garage::work(server.engine().clone()));
        let receiving = tokio::spawn(demo::hotel::receive(server.engine().clone()));
        let ended = server.run(asked).await;
        for task in [selling, working, receiving] {
            task.abort();
        }
        ended
    }
}

fn furnish(builder: Builder) -> Builder {
    demo::TOPICS
        .iter()
        .fold(builder, |builder, topic| builder.handler_with(*topic, CONCURRENCY, demo::handle))
}

fn welcome(server: &Server, made: Option<&str>) {
    let url = format!("http://{}", server.address());
    print_line(&format!(
        "punctual is ready on {url} (demo)\n\n  Look at it:   {url}/\n  \
           Letters:      {url}/dev/inbox  (open a survey's link there)\n  \
           Providers:    {url}/demo/providers  (what the hotel's guests would get)"
    ));
    if let Some(key) = made {
        print_line(&format!("  Root key:     {key}  (made for this run)"));
    }
    let key = made.unwrap_or("$PUNCTUAL_ROOT_KEY");
    print_line(&format!(
        "  Queues:       curl -H 'Authorization: Bearer {key}' {url}/api/queues\n  \
           Dead letters: curl -H 'Authorization: Bearer {key}' '{url}/api/dead-letters?topic=emails'\n  \
           Results:      curl -H 'Authorization: Bearer {key}' {url}/api/surveys/1/results\n  \
           Messages:     curl -H 'Authorization: Bearer {key}' '{url}/api/communication-logs?limit=3'\n  \
           Metrics:      curl {url}/metrics\n\n\
         A shop sells something every second or so; an order makes an e-mail at once and an invoice 20 s\n\
         later. One attempt in eight fails and is tried again; a few never succeed and become dead letters.\n\
         A garage closes a visit every few seconds: the customer's survey link is in the inbox above, in\n\
         Arabic or English; a reminder would follow in a day. Some customers answer.\n\
         A hotel confirms bookings by WhatsApp, SMS and mail, in Arabic or English. Its providers\n\
         are fakes on this machine that answer as the real ones do; one request in eight finds them busy\n\
         and is tried again a minute later. A booking that is confirmed twice is told once.\n\
         Ctrl-C ends it."
    ));
}
