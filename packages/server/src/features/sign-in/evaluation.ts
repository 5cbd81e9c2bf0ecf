import { dayMs, minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { seal, unseal } from '../../sealed.ts'
import { auditStatements, localActor } from '../audit/audit.ts'
import {
  claimSession,
  endSessionStatement,
  endSessionsStatement,
  evaluatedStatement,
  readDueSessions,
  type SessionRow,
  sessionId,
} from '../keys/session-statements.ts'
import { deletePeopleBefore, findPerson, type PersonRow, personStatement } from '../people/person-statements.ts'
import type { Answer, Provider } from './provider.ts'
import { deleteSignInsBefore } from './queries.ts'
import { evaluateEveryMs, type PeopleSignIn, type StoredTokens } from './sign-in.ts'

/** Sessions per run and at the same time: the provider answers in some 100 ms, so a run ends before the next. */
const perRun = 500
const atOnce = 10
/** Time after which a session is asked for again, if the provider is away or the process that asks has crashed. */
const retryMs = minuteMs

/** Time after which a person who was refused is forgotten. */
const forgetMs = 30 * dayMs

const actor = localActor('system')

/** Asks the provider again who the people with open sessions are, and ends the sessions of those who lost their role. */
export class Evaluation {
  readonly #deps: Deps
  readonly #provider: Provider | undefined
  readonly #signIn: Pick<PeopleSignIn, 'evaluate' | 'roleChange'>

  constructor(
    deps: Deps,
    parts: { provider: Provider | undefined; peopleSignIn: Pick<PeopleSignIn, 'evaluate' | 'roleChange'> },
  ) {
    this.#deps = deps
    this.#provider = parts.provider
    this.#signIn = parts.peopleSignIn
  }

  async run(stopping?: AbortSignal): Promise<void> {
    const { database, clock } = this.#deps
    const now = clock.now()
    await deleteSignInsBefore(database.db, now)
    await deletePeopleBefore(database.db, now - forgetMs)
    if (!this.#provider) return
    const due = await readDueSessions(database.db, now, perRun)
    const work = async () => {
      for (let row = due.shift(); row && !stopping?.aborted; row = due.shift())
        await this.#evaluate(this.#provider!, row)
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }

  async #evaluate(provider: Provider, session: SessionRow): Promise<void> {
    const { database, clock, log, secrets } = this.#deps
    if (!(await claimSession(database.db, session, clock.now() + retryMs))) return
    const person = await findPerson(database.db, session.key_id)
    // The tokens are of the provider at which the person signed in.
    if (!person || person.issuer !== provider.settings.issuer) {
      return this.#end(session, 'the person signed in at another provider')
    }
    const askedAt = clock.now()
    try {
      const tokens = unseal<StoredTokens>(sessionId(session), session.sealed!, secrets.signInKey)
      const said = await provider.refresh(tokens.refresh!, person.subject)
      await this.#store(session, person, { tokens, said, askedAt })
    } catch (fault) {
      if (fault instanceof AppError && fault.code === 'unauthorized') {
        return this.#end(session, 'the provider refused to renew it')
      }
      log.warn({ err: fault, person: person.id }, 'a session could not be evaluated')
    }
  }

  async #store(
    session: SessionRow,
    person: PersonRow,
    { tokens, said, askedAt }: { tokens: StoredTokens; said: Answer; askedAt: number },
  ): Promise<void> {
    const { database, clock, secrets } = this.#deps
    const now = clock.now()
    // A provider may renew the token each time, and may leave the ID token out.
    const kept = { refresh: said.refreshToken ?? tokens.refresh, id: said.idToken ?? tokens.id }
    const sealed = seal(sessionId(session), kept, secrets.signInKey)
    const times = { askedAt, signedInAt: person.signed_in_at }
    const evaluated = said.sources.length === 0 ? undefined : await this.#signIn.evaluate(said, times)
    if (!evaluated || (!evaluated.granted && !evaluated.hasGroups)) {
      // Nothing was said: the session ends an hour after the last time that something was.
      const due = { evaluated_at: session.evaluated_at, due_at: now + evaluateEveryMs, sealed }
      await database.batch([evaluatedStatement(database.db, session.token_hash, due)])
      return
    }
    const { row, granted } = evaluated
    const due = { evaluated_at: askedAt, due_at: now + evaluateEveryMs, sealed }
    await database.batch([
      personStatement(database.db, row),
      granted ? evaluatedStatement(database.db, session.token_hash, due) : endSessionsStatement(database.db, person.id),
      ...(await this.#signIn.roleChange(evaluated, actor, now)),
    ])
  }

  async #end(session: SessionRow, reason: string): Promise<void> {
    const { database, clock } = this.#deps
    const action = { action: 'session.end', target: session.key_id, before: null, after: null, reason }
    await database.batch([
      endSessionStatement(database.db, session.token_hash),
      ...auditStatements(database, actor, action, clock.now()),
    ])
  }
}
