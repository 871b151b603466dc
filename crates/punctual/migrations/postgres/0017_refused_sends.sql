-- Why a send was not even tried, as one word: `stop`, `opted-out`, …; null for what was.
alter table punctual.delivery_outcome add column reason text;
