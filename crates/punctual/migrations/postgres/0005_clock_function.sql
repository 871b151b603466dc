-- A function in SQL that holds a query is parsed and planned again by every statement that
-- calls it; one in PL/pgSQL keeps its plan for as long as the session lasts. Every claim,
-- settlement and insert asks for the time.
create or replace function punctual.now_us() returns bigint language plpgsql stable as $$
declare
    by_hand bigint;
begin
    select c.now_us into by_hand from punctual.clock c where c.id = 1 and c.manual = 1;
    return coalesce(by_hand, (extract(epoch from statement_timestamp()) * 1000000)::bigint);
end
$$;
