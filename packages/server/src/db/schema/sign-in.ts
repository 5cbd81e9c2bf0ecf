/** An attempt to sign in that the provider has not answered yet. */
interface SignInsTable {
  state_hash: string
  secret_hash: string
  /** Encrypted JSON: nonce and PKCE verifier. */
  sealed: string
  expires_at: number
}

export interface SignInTables {
  sign_ins: SignInsTable
}
