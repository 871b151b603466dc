-- What tells entries apart comes first in their indexes: a tenant's number before it is the same for
-- nearly all of them, and is compared at every step of every descent.

drop index punctual.entry_by_key;
create unique index entry_by_key on punctual.entry (key_high, key_low, tenant_id) where deleted_at is null;
drop index punctual.entry_by_flow;
create index entry_by_flow on punctual.entry (flow_id, id);
drop index punctual.entry_by_address;
create index entry_by_address on punctual.entry (address, tenant_id);
drop index punctual.entry_by_customer;
create index entry_by_customer on punctual.entry (customer_ref, tenant_id) where customer_ref is not null;

-- Every entry is updated soon after it is written, and neighbours at once: with room for all of them on
-- their page no index hears of it.
alter table punctual.entry set (fillfactor = 45);
