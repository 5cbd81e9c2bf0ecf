import { CompiledQuery, sql } from 'kysely'
import type { Dialect } from './database.ts'

type ColumnType = 'text' | 'bigint' | 'double'

const typeNames: Record<ColumnType, string> = { text: 'text', bigint: 'bigint', double: 'double precision' }

const needsEscape = /["\\]/
const escaped = /["\\]/g

/** Formats a one-dimensional array literal (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO). */
function arrayLiteral(values: readonly unknown[]): string {
  let text = ''
  for (const value of values) {
    if (text !== '') text += ','
    if (value === null || value === undefined) text += 'NULL'
    else if (typeof value !== 'string') text += String(value)
    else text += needsEscape.test(value) ? `"${value.replaceAll(escaped, '\\$&')}"` : `"${value}"`
  }
  return `{${text}}`
}

export const postgresDialect: Dialect = {
  ddl: {
    bigint: 'bigint',
    // Bytewise comparison, as in SQLite: the same order on both engines, and locale updates cannot break an index.
    text: 'text collate "C"',
    clustered: '',
    // Leaves space on the page for the row's next version, so that a heartbeat updates no index.
    rewritten: 'with (fillfactor = 70)',
    daily: { key: 'seq, created_at', storage: 'partition by range (created_at)' },
    appendOnly: (table) => [
      `create function ${table}_is_append_only() returns trigger language plpgsql as
        $$ begin raise exception '${table} is append-only' using errcode = 'integrity_constraint_violation'; end $$`,
      `create trigger ${table}_no_change before update or delete or truncate on ${table}
        for each statement execute function ${table}_is_append_only()`,
    ],
    // Per statement: a per-row trigger would update the total once for every row.
    counted: (table, counts) => {
      const trigger = (event: 'insert' | 'delete', rows: string, sign: string) => [
        `create function ${table}_count_${event}() returns trigger language plpgsql as $$ begin
          insert into ${counts} as known (owner, count)
            select owner, ${sign}count(*) from (
              select '' as owner from ${rows} union all select coalesce(owner, '-') from ${rows}
            ) as changed group by owner order by owner
            on conflict (owner) do update set count = known.count + excluded.count;
          return null; end $$`,
        `create trigger ${table}_count_${event} after ${event} on ${table}
          referencing ${event === 'insert' ? 'new' : 'old'} table as ${rows}
          for each statement execute function ${table}_count_${event}()`,
      ]
      return [...trigger('insert', 'added', ''), ...trigger('delete', 'removed', '-')]
    },
    listed: (table, column, rows) => {
      const remove = `delete from ${rows} where instance_id = old.id;`
      const add = `insert into ${rows} (tag, instance_id)
        select distinct value, new.id from jsonb_array_elements_text(coalesce(new.${column}, '[]')::jsonb);`
      const trigger = (event: 'insert' | 'update' | 'delete', when: string, work: string) => [
        `create function ${table}_${column}_${event}() returns trigger language plpgsql as
          $$ begin ${work} return null; end $$`,
        `create trigger ${table}_${column}_${event} after ${event === 'update' ? `update of ${column}` : event} on ${table}
          for each row when (${when}) execute function ${table}_${column}_${event}()`,
      ]
      return [
        `insert into ${rows} (tag, instance_id) select distinct value, ${table}.id
          from ${table}, jsonb_array_elements_text(coalesce(${table}.${column}, '[]')::jsonb)`,
        ...trigger('insert', `new.${column} is not null`, add),
        ...trigger('update', `new.${column} is distinct from old.${column}`, remove + add),
        ...trigger('delete', `old.${column} is not null`, remove),
      ]
    },
  },

  rowsFromJson(json, columns) {
    const names = Object.entries(columns).map(
      ([name, type], index) => sql`(value ->> ${sql.lit(index)})::${sql.raw(typeNames[type])} as ${sql.ref(name)}`,
    )
    return sql`(select ordinality - 1 as ordinal, ${sql.join(names)}
      from jsonb_array_elements(${json}::jsonb) with ordinality)`
  },

  jsonField: (column, name) => sql`(${column})::json ->> ${sql.lit(name)}`,
  jsonRows: (columns) =>
    sql`json_agg(json_build_array(${sql.join(columns.map((column) => sql.ref(column)))}) order by ${sql.ref(columns[0])})::text`,

  // Plain SQL can only fail on purpose by dividing by zero. No other statement of the service divides by a count.
  lockFound: (query) => ({ ...query, sql: `select 1 / count(*) from (${query.sql} for update) as held` }),
  sha256Hex: (text) => sql`encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`,

  // One array per column costs the server half as much as extracting every value from JSON.
  insertSequenced(table, columns, counter, back = {}) {
    const names = Object.keys(columns)
    const lastOf = (name: string) => `(select value from counters where name = '${name}')`
    const values = names.map((name) => (back[name] === undefined ? name : `${lastOf(back[name])} - ${name}`))
    const arrays = Object.values(columns).map((type, index) => `$${index + 1}::${typeNames[type]}[]`)
    const seq = `${lastOf(counter)} - cardinality($1::${typeNames[Object.values(columns)[0]!]}[]) + ordinality`
    const text = `insert into ${table} (seq, ${names.join(', ')})
      select ${seq}, ${values.join(', ')} from unnest(${arrays.join(', ')}) with ordinality as batch (${names.join(', ')}, ordinality)`
    return (rows) =>
      CompiledQuery.raw(
        text,
        names.map((_, index) => arrayLiteral(rows.map((row) => row[index]))),
      )
  },

  addCounts(table, keys) {
    const names = Object.keys(keys).join(', ')
    const types = [...Object.values(keys), 'bigint' as const]
    const arrays = types.map((type, index) => `$${index + 1}::${typeNames[type]}[]`).join(', ')
    const text = `insert into ${table} (${names}, count) select * from unnest(${arrays})
      on conflict (${names}) do update set count = ${table}.count + excluded.count`
    return (rows) =>
      CompiledQuery.raw(
        text,
        types.map((_, index) => arrayLiteral(rows.map((row) => row[index]))),
      )
  },
}
