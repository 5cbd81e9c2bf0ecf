/** An attempt to sign in that was finished: each works once. */
interface SignInsTable {
  state_hash: string
  /** When the attempt would have expired. */
  expires_at: number
}

export interface SignInTables {
  sign_ins: SignInsTable
}
