import { connect } from 'node:net'
import { Client, Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openPglite, type TestPglite } from './pglite.ts'

let pglite: TestPglite
let pool: Pool
// The first instance of a process takes seconds.
beforeAll(async () => {
  pglite = await openPglite()
  pool = new Pool({ connectionString: pglite.url, max: 4 })
  pool.on('error', () => {})
  await pool.query('create table notes (id integer primary key, text text)')
})
afterAll(async () => {
  await pool.end()
  await pglite[Symbol.asyncDispose]()
})
beforeEach(() => pool.query('delete from notes'))
const ids = async () => (await pool.query('select id from notes order by id')).rows.map(({ id }) => id)

/** All connections of the pool, concurrently. */
async function connections<Result>(count: number, work: (...clients: PoolClient[]) => Promise<Result>) {
  const clients = await Promise.all(Array.from({ length: count }, () => pool.connect()))
  try {
    return await work(...clients)
  } finally {
    for (const client of clients) client.release()
  }
}

/** Sends several statements with one Sync at the end, like the driver. */
class Pipeline {
  readonly done: Promise<string[]>
  readonly #tags: string[] = []
  readonly #texts: string[]
  #settle!: { resolve(tags: string[]): void; reject(fault: Error): void }

  constructor(texts: string[]) {
    this.#texts = texts
    this.done = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
  }

  submit(connection: never): void {
    const wire = connection as unknown as Record<
      'parse' | 'bind' | 'describe' | 'execute' | 'sync',
      (m?: object) => void
    >
    for (const [index, text] of this.#texts.entries()) {
      const name = `piped_${index}_${text}`
      wire.parse({ name, text })
      wire.bind({ statement: name, values: [] })
      wire.describe({ type: 'P', name: '' })
      wire.execute({ portal: '', rows: 0 })
    }
    wire.sync()
  }

  handleRowDescription() {}
  handleDataRow() {}
  handleEmptyQuery() {}
  handleCommandComplete({ text }: { text: string }) {
    this.#tags.push(text)
  }
  handleError(fault: Error) {
    this.#settle.reject(fault)
  }
  handleReadyForQuery() {
    this.#settle.resolve(this.#tags)
  }
}

describe('the bridge', () => {
  it('answers simple and prepared statements of several connections at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const named = { name: 'double', text: 'select $1::integer * 2 as value', values: [index] }
        const { rows } = await pool.query(index % 2 === 0 ? named : { text: `select ${index} * 2 as value` })
        return rows[0].value
      }),
    )
    expect(answers).toEqual(Array.from({ length: 40 }, (_, index) => index * 2))
  })

  it('lets two connections give the same name to different statements', async () => {
    await connections(2, async (one, other) => {
      const ask = (client: PoolClient, text: string) => client.query({ name: 'same', text }).then(({ rows }) => rows[0])
      for (let round = 0; round < 2; round++) {
        expect(await ask(one!, 'select 1 as value')).toEqual({ value: 1 })
        expect(await ask(other!, `select 'b' as value`)).toEqual({ value: 'b' })
      }
    })
  })

  it('passes texts of many megabytes in both directions', async () => {
    const text = 'ü'.repeat(3_000_000)
    const { rows } = await pool.query('select $1::text as text', [text])
    expect(rows[0].text === text).toBe(true)
  })

  it('keeps the others out of an open transaction', async () => {
    await connections(2, async (one, other) => {
      await one!.query('begin')
      await one!.query('insert into notes values (1)')
      const order: string[] = []
      const waiting = other!.query('select count(*)::integer as count from notes').then(({ rows }) => {
        order.push('read')
        return rows[0].count
      })
      await one!.query('insert into notes values (2)')
      order.push('insert')
      await one!.query('rollback')
      expect(await waiting).toBe(0)
      expect(order).toEqual(['insert', 'read'])
    })
  })

  it('goes on after a fault, also within a transaction', async () => {
    await connections(1, async (client) => {
      await expect(client!.query('selec')).rejects.toMatchObject({ code: '42601' })
      await expect(client!.query('insert into notes values ($1)', ['x'])).rejects.toMatchObject({ code: '22P02' })
      await client!.query('begin')
      await client!.query('insert into notes values (1)')
      await expect(client!.query('insert into notes values (1)')).rejects.toMatchObject({ code: '23505' })
      await expect(client!.query('select 1')).rejects.toMatchObject({ code: '25P02' })
      await client!.query('rollback')
    })
    expect(await ids()).toEqual([])
  })

  it('runs what stands before one Sync as one transaction', async () => {
    const inserts = ['insert into notes values (1)', 'insert into notes values (2)']
    await connections(2, async (one, other) => {
      const tags = await Promise.all(
        [
          one!.query(new Pipeline(inserts) as never) as unknown as Pipeline,
          other!.query(new Pipeline(['select 1', 'select 2']) as never) as unknown as Pipeline,
        ].map(({ done }) => done),
      )
      expect(tags).toEqual([
        ['INSERT 0 1', 'INSERT 0 1'],
        ['SELECT 1', 'SELECT 1'],
      ])
    })
    expect(await ids()).toEqual([1, 2])
  })

  it('undoes all of it when one statement fails, and carries out none of those behind', async () => {
    await connections(1, async (client) => {
      const inserts = [3, 3, 4].map((id) => `insert into notes values (${id})`)
      const pipeline = new Pipeline(inserts)
      client!.query(pipeline as never)
      await expect(pipeline.done).rejects.toMatchObject({ code: '23505' })
      expect((await client!.query('select 1 as value')).rows).toEqual([{ value: 1 }])
    })
    expect(await ids()).toEqual([])
  })

  it('undoes the transaction of a connection that goes away, and lets the next one in', async () => {
    const client = new Client({ connectionString: pglite.url })
    client.on('error', () => {})
    await client.connect()
    await client.query('begin')
    await client.query('insert into notes values (1)')
    const waiting = ids()
    ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
    expect(await waiting).toEqual([])
  })

  it('refuses encryption and a cancellation without harm', async () => {
    const { port } = new URL(pglite.url)
    const say = (code: number) =>
      new Promise<string>((resolve) => {
        const request = Buffer.alloc(16)
        request.writeInt32BE(code === 80_877_102 ? 16 : 8)
        request.writeInt32BE(code, 4)
        let heard = ''
        const socket = connect(Number(port), '127.0.0.1', () =>
          socket.write(request.subarray(0, request.readInt32BE())),
        )
        socket.on('data', (chunk) => {
          heard += chunk
          socket.end()
        })
        socket.on('close', () => resolve(heard))
      })
    expect(await say(80_877_103)).toBe('N')
    expect(await say(80_877_102)).toBe('')
    expect(await ids()).toEqual([])
  })
})

describe('an instance', () => {
  it('comes back from the pool as if it were new', async () => {
    const leave = async (url: string) => {
      const client = new Client({ connectionString: url })
      client.on('error', () => {})
      await client.connect()
      await client.query(`set search_path = 'nowhere'`)
      await client.query('create table public.left_behind (id integer)')
      await client.query({ name: 'left', text: 'select 1' })
      await client.query('begin')
    }
    const first = await openPglite()
    await leave(first.url)
    await first[Symbol.asyncDispose]()

    await using second = await openPglite()
    const client = new Client({ connectionString: second.url })
    await client.connect()
    const tables = `select count(*)::integer as count from pg_class where relnamespace = 'public'::regnamespace`
    expect((await client.query(tables)).rows).toEqual([{ count: 0 }])
    expect((await client.query('show search_path')).rows).toEqual([{ search_path: 'public' }])
    expect((await client.query({ name: 'left', text: 'select 2 as value' })).rows).toEqual([{ value: 2 }])
    await client.end()
  })

  it('shares nothing with another one', async () => {
    await using other = await openPglite()
    const client = new Client({ connectionString: other.url })
    await client.connect()
    await client.query('create table notes (id integer primary key)')
    expect((await client.query('select * from notes')).rows).toEqual([])
    await client.end()
  })
})
