/** A login of a command line that waits for a person, or was allowed and not fetched yet. */
interface CommandLoginsTable {
  /** SHA-256 of the token of the session, which only the command line knows. */
  challenge: string
  /** Hash of the code that a person types. */
  code_hash: string
  /** Name and address of the machine, the name as it says itself. */
  host: string
  address: string | null
  /** Where the command line listens on 127.0.0.1, and the text by which it knows the answer; null = it asks. */
  port: number | null
  state: string | null
  /** 1 = the provider authenticates the person again. */
  confirm: 0 | 1
  /** Hash of the code that the browser brings to the port, once allowed. */
  answer_hash: string | null
  allowed_at: number | null
  created_at: number
  expires_at: number
}

export interface CommandLoginTables {
  command_logins: CommandLoginsTable
}
