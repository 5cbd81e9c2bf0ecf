import { Client, type ClientConfig, type QueryResult, types } from 'pg'

const numberTypes = [types.builtins.INT8, types.builtins.NUMERIC]
const asNumbers = {
  getTypeParser: (oid: number) => (numberTypes.includes(oid) ? Number : types.getTypeParser(oid)),
} as NonNullable<ClientConfig['types']>

/** Opens a connection. Numbers of any size are returned as numbers. */
export async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url, types: asNumbers })
  client.on('error', () => {})
  await client.connect()
  return client
}

/**
 * One connection for many queries, opened by the first one and reopened after the server closed it. A new connection
 * costs client and server about 8 ms of CPU time. It does not keep the process alive.
 */
export class Session {
  readonly url: string
  #client: Promise<Client> | undefined

  constructor(url: string) {
    this.url = url
  }

  async query(statements: string): Promise<QueryResult> {
    this.#client ??= this.#open()
    return (await this.#client).query(statements)
  }

  async end(): Promise<void> {
    const client = await this.#client
    this.#client = undefined
    await client?.end()
  }

  async #open(): Promise<Client> {
    const forget = () => {
      this.#client = undefined
    }
    const client = await connect(this.url).catch((fault) => {
      forget()
      throw fault
    })
    client.on('end', forget)
    // Missing in its types.
    const { unref } = client as unknown as { unref(): void }
    unref.call(client)
    return client
  }
}
