//! `punctual surveys`: create, publish and list them.

use super::explain::read_json;
use crate::cli::database::TenantOption;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::cli::table::{Table, one_line};
use crate::cli::{GlobalOptions, format, print_json, print_line};
use crate::http::api::survey::surveys::{ShownResults, shown_results};
use punctual::base::limits::LIST_ITEMS_MAX;
use punctual::flow::store::flows::{Flow, FlowDraft};
use punctual::survey::store::results::ResultFilter;
use punctual::{Engine, FlowId, Problems, Tenant};
use serde_json::{Value, json};
use std::path::Path;

/// The subcommands of `surveys`.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Surveys {
    /// List surveys, by id
    List {
        #[command(flatten)]
        of: TenantOption,
    },
    /// Show a survey with its draft
    Show(SurveyId),
    /// Create a survey from its definition; it is a draft until it is published
    Create {
        /// File with the definition as JSON, or `-` for standard input
        file: String,
        /// Name for people [default: the file's name]
        #[arg(long, required_if_eq("file", "-"))]
        name: Option<String>,
        #[command(flatten)]
        of: TenantOption,
    },
    /// Publish the draft as the next version
    Publish(SurveyId),
    /// Show the results of a survey
    Results(SurveyId),
}

/// One survey.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SurveyId {
    /// Id of the survey
    id: i64,
    #[command(flatten)]
    of: TenantOption,
}

impl Surveys {
    pub(in crate::cli) async fn run(self, options: &GlobalOptions) -> Outcome {
        let engine = options.engine().await?;
        let json = options.json;
        match self {
            Self::List { of } => list(&engine, of.find(engine.store()).await?, json).await,
            Self::Create { file, name, of } => {
                let tenant = of.find(engine.store()).await?;
                create(&engine, tenant, &file, name, json).await
            }
            Self::Show(one) => one.show(&engine, json).await,
            Self::Publish(one) => one.publish(&engine, json).await,
            Self::Results(one) => one.results(&engine, json).await,
        }
    }
}

impl SurveyId {
    async fn show(&self, engine: &Engine, json: bool) -> Outcome {
        let tenant = self.of.find(engine.store()).await?;
        let flow = engine.store().flow(tenant, FlowId(self.id)).await?;
        let missing = || format!("there is no survey {}; see `punctual surveys list`", self.id);
        let flow = flow.ok_or_else(|| CommandFailure::failed(missing()))?;
        if json {
            print_json(&shown(&flow));
            return Ok(());
        }
        print_line(&sentence(&flow));
        print_line(&format!("{:#}", flow.draft));
        Ok(())
    }

    async fn publish(&self, engine: &Engine, json: bool) -> Outcome {
        let tenant = self.of.find(engine.store()).await?;
        let version = engine.store().publish_flow(tenant, FlowId(self.id)).await?;
        if json {
            print_json(&json!({"surveyId": self.id, "version": version}));
        } else {
            print_line(&format!("survey {} is published as version {version}", self.id));
        }
        Ok(())
    }

    async fn results(&self, engine: &Engine, json: bool) -> Outcome {
        let tenant = self.of.find(engine.store()).await?;
        let found = engine.results(tenant, FlowId(self.id), &ResultFilter::default()).await?;
        let results = shown_results(self.id, found);
        if json {
            print_json(&json!(results));
        } else {
            say_results(&results);
        }
        Ok(())
    }
}

async fn list(engine: &Engine, tenant: Tenant, json: bool) -> Outcome {
    let mut all: Vec<Flow> = Vec::new();
    loop {
        let after = all.last().map_or(FlowId(0), |flow| flow.id);
        let more = engine.store().flows(tenant, after, LIST_ITEMS_MAX).await?;
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    if json {
        print_json(&json!({"items": all.iter().map(shown).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut table = Table::new(&["#id", "name", "#version", "changed"]);
    for flow in &all {
        let version = flow.published.map_or_else(|| "-".into(), |n| n.to_string());
        table.row([flow.id.to_string(), flow.name.clone(), version, flow.updated_at.to_string()]);
    }
    print_line(table.text().trim_end());
    Ok(())
}

async fn create(engine: &Engine, tenant: Tenant, file: &str, name: Option<String>, json: bool) -> Outcome {
    let stem = || Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let definition = read_json(file)?;
    let draft = FlowDraft { name: name.unwrap_or_else(stem), integration_id: None, definition };
    // Not whether channels are there: this process has none, a server has its own.
    let (_, doubts) = draft.check();
    let flow = engine.store().create_flow(tenant, draft).await?;
    if json {
        let mut made = shown(&flow);
        made["warnings"] = json!(doubts.0);
        print_json(&made);
        return Ok(());
    }
    print_line(&format!("{}; `punctual surveys publish {}` publishes it", sentence(&flow), flow.id));
    warn(&doubts);
    Ok(())
}

fn warn(doubts: &Problems) {
    for doubt in &doubts.0 {
        eprintln!("warning: {}: {}", one_line(&doubt.path), one_line(&doubt.message));
    }
}

fn sentence(flow: &Flow) -> String {
    let state = flow.published.map_or_else(|| "a draft".into(), |n| format!("published as version {n}"));
    format!("survey {} ({}) is {state}", flow.id, one_line(&flow.name))
}

fn shown(flow: &Flow) -> Value {
    json!({
        "id": flow.id,
        "name": flow.name,
        "integrationId": flow.integration_id,
        "draft": flow.draft,
        "publishedVersion": flow.published,
        "createdAt": flow.created_at,
        "updatedAt": flow.updated_at,
    })
}

fn say_results(results: &ShownResults) {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".into(), |s| format!("{:.1} %", s * 100.0));
    let number = |n: Option<f64>| n.map_or_else(|| "-".into(), |n| format!("{n:.1}"));
    let invited = format::many(i64::try_from(results.invited).unwrap_or(i64::MAX), "invitation");
    print_line(&format!(
        "{invited}, {} answered ({}), NPS {}, CSAT {}",
        results.completed,
        percent(results.response_rate),
        number(results.nps),
        percent(results.csat),
    ));
    let mut table = Table::new(&["question", "#answered", "#mean", "answers"]);
    for question in &results.questions {
        let given = question.distribution.iter().filter(|line| line.count > 0);
        let given = given.map(|line| format!("{}: {}", line.value, line.count)).collect::<Vec<_>>();
        let answered = question.answered.to_string();
        table.row([question.id.clone(), answered, number(question.mean), given.join(", ")]);
    }
    print_line(table.text().trim_end());
}
