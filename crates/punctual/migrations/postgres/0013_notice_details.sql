-- Who a message was for, by the name and the reference that its event gave, and what its words lacked at each
-- try: support asks for both when the event itself has long been dropped by age.
alter table punctual.notice_delivery add column recipient text;
alter table punctual.notice_delivery add column recipient_ref text;
alter table punctual.notice_attempt add column warnings text;
