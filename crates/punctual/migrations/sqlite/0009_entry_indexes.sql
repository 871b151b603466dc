-- What tells entries apart comes first in their indexes: a tenant's number before it is the same for
-- nearly all of them, and is compared at every step of every descent.

drop index punctual_entry_by_key;
create unique index punctual_entry_by_key on punctual_entry (key_high, key_low, tenant_id) where deleted_at is null;
drop index punctual_entry_by_flow;
create index punctual_entry_by_flow on punctual_entry (flow_id, id);
drop index punctual_entry_by_address;
create index punctual_entry_by_address on punctual_entry (address, tenant_id);
drop index punctual_entry_by_customer;
create index punctual_entry_by_customer on punctual_entry (customer_ref, tenant_id) where customer_ref is not null;
