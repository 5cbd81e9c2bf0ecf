import type { Label, ToolLabels } from './labels.ts'

/** A tool as MCP lists it (`tools/list` of the specification of 2026-07-28). */
export interface ListedTool {
  name: string
  description?: string
  inputSchema?: { properties?: Readonly<Record<string, unknown>>; required?: readonly string[] }
  annotations?: {
    readOnlyHint?: boolean
    destructiveHint?: boolean
    openWorldHint?: boolean
  }
}

/** A tool about which nothing is known may read what a stranger wrote, and send it out. */
export const unknownTool: ToolLabels = { is: ['untrusted', 'sends'], destination: [], when: {} }

/**
 * Words by which labels are guessed, in one table for all clients: `npm run docs` copies it into clients/python/wardline.py.
 */
export const guessWords = {
  sending:
    'send post reply forward share publish tweet retweet invite notify email mail message dm comment submit upload transfer pay wire remit donate tip book reserve order purchase buy checkout subscribe broadcast announce push call dial sms fax respond answer react add_participants export deploy grant dispatch request execute run exec shell bash cancel ship trade sell swap bid withdraw',
  undoing:
    'delete remove cancel drop purge erase wipe destroy terminate revoke reset overwrite truncate uninstall unsubscribe close shutdown kill format disable ban block transfer pay wire remit donate purchase buy order book reserve checkout send reply forward publish exchange return refund execute run exec shell bash trade sell swap grant deploy unlock merge withdraw',
  changing:
    'create add update edit modify set change write append insert replace rename move copy save store schedule reschedule assign unassign enable mark archive complete register enroll connect link install configure generate_file upload put patch apply restart start stop open_door control turn adjust book reserve',
  reading:
    'get read list search find fetch view show retrieve check lookup look browse query open download load receive summarize extract scan inspect describe translate analyze track monitor navigate visit crawl scrape recall explore review display watch access inquire obtain view_all',
  /** What the owner of the service measures or configures: nobody else writes it. */
  closed:
    'price prices cost hour hours time date day today now address addresses balance count total status availability available fuel cuisine option options type types airport airports currency rate rates exchange version weather temperature forecast schedule route routes distance location locations coordinates stock quote iban zip unit units timezone language languages price_per_day flight flights capacity limit limits health metrics',
  /** What others write, whatever else the tool is about. */
  written:
    'email emails mail mails inbox message messages chat chats channel thread threads comment comments review reviews feedback post posts tweet tweets page pages web website webpage url link file files document documents doc docs note notes ticket tickets issue issues pull pr prs event events calendar notification notifications article articles news feed transcript attachment attachments transaction transactions search result results answer answers question questions wiki blog repository repo readme code contents content html record records task tasks item_reviews description descriptions product products forum profile profiles history memory memories voicemail voicemails podcast video videos invitation invitations request requests',
  /** Whose answers name people, places and accounts that the operator keeps. */
  kept: 'contact contacts directory user users customer customers account accounts employee employees member members order orders reservation reservations',
  personal:
    'email emails mail mails inbox message messages chat file files document documents note notes calendar contact contacts user users customer customers account accounts profile transaction transactions balance medical health patient record records history password passwords secret secrets credential credentials token tokens key keys address addresses payment card bank statement order orders reservation reservations voicemail personal private device devices location',
  /** Works on its arguments alone. */
  computing: 'calculate compute convert count validate format parse encode decode think sleep wait',
  fetching: 'fetch browse open visit navigate scrape crawl webpage website url uri download',
  /** What leaves for good when it is created or changed, as `schedule_transaction` does. */
  money:
    'money payment payments transaction transactions transfer transfers fund funds payout payouts remittance refund refunds charge charges withdrawal withdrawals',
  /** What others get to read when it is created. */
  published:
    'comment comments message messages mail mails email emails post posts tweet tweets reply replies issue issues pull review reviews announcement invitation invitations notification notifications gist release',
  creating: 'create add append write insert',
  /** Whose output is what others wrote, whatever else they do. */
  executing: 'execute exec run shell bash terminal',
  /** Whom a change gives access, with the verbs that do. */
  people:
    'user users member members collaborator collaborators participant participants guest guests attendee attendees contributor contributors follower followers',
  admitting: 'add assign enroll register connect link enable',
  /** What protects an account: a change of it locks its owner out. */
  guarding:
    'password passwords passcode pin credential credentials permission permissions role roles access secret secrets token tokens mfa 2fa lock',
  /** Arguments that say where an effect goes, without underscores. */
  directing:
    'to cc bcc recipient recipients receiver receivers participant participants attendee attendees invitee invitees email emails emailaddress emailaddresses address addresses phone phonenumber number channel channels channelid channelname user users userid username useremail account accountid accountnumber iban destination dest target url uri link endpoint webhook host domain repo repository owner branch path file fileid filename filepath folder folderid id hotel restaurant company vendor merchant payee name title',
} as const

const listed = (text: string): ReadonlySet<string> => new Set(text.split(' '))
const sending = listed(guessWords.sending)
const undoing = listed(guessWords.undoing)
const changing = listed(guessWords.changing)
const reading = listed(guessWords.reading)
const closed = listed(guessWords.closed)
const written = listed(guessWords.written)
const kept = listed(guessWords.kept)
const personal = listed(guessWords.personal)
const computing = listed(guessWords.computing)
const fetching = listed(guessWords.fetching)
const money = listed(guessWords.money)
const published = listed(guessWords.published)
const creating = listed(guessWords.creating)
const executing = listed(guessWords.executing)
const people = listed(guessWords.people)
const admitting = listed(guessWords.admitting)
const guarding = listed(guessWords.guarding)
const directing = listed(guessWords.directing)

/** Whether an argument says where an effect goes: by its name, or as the id of something. */
const isDirecting = (arg: string): boolean =>
  directing.has(arg.toLowerCase().replaceAll('_', '')) ||
  /(?:_[iI][dD][sS]?|[a-z]Ids?)$/.test(arg) ||
  /^recipient/i.test(arg)

/** `getUnreadEmails`, `get_unread_emails`, `GmailSendEmail` as words. */
const wordsOfName = (name: string): string[] =>
  name
    .replace(/^mcp__/, '')
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')

const stems = (word: string): string[] => [
  word,
  word.replace(/s$/, ''),
  word.replace(/(?:es|ed|ing)$/, ''),
  word.replace(/(?:ed|ing)$/, 'e'),
]

const hasAny = (words: readonly string[], known: ReadonlySet<string>): boolean =>
  words.some((word) => stems(word).some((stem) => known.has(stem)))

/**
 * Guesses the labels of a tool from its name, the first sentence of its description, its arguments and the hints of its
 * server. Hints are the server's own word: they may add labels, and only where nothing else is known take them away.
 */
export function guessLabels({ name, description: given, inputSchema, annotations }: ListedTool): ToolLabels {
  // Servers of tools may list anything.
  const description = typeof given === 'string' ? given.slice(0, 1_000) : ''
  const named = wordsOfName(name.slice(0, 200))
  const sentence = wordsOfName(description.split(/[.\n]/, 1)[0] ?? '')
  // The verb stands first in the name, or after the name of the product.
  const isKnownVerb = (words: readonly string[]) =>
    [reading, sending, changing, undoing, computing].some((verbs) => hasAny(words, verbs))
  const verb = named.find((word) => isKnownVerb([word]))
  const verbs = verb !== undefined ? [verb] : sentence.slice(0, 4)
  const objects = [...named.filter((word) => word !== verb), ...sentence.slice(0, 12)]
  const args = Object.keys(inputSchema?.properties ?? {}).slice(0, 100)
  const held = new Set<Label>()
  const isReading = hasAny(verbs, reading) && !hasAny(verbs, sending)
  if (isReading) {
    // What stands behind a preposition says how to search, not what is read.
    const end = named.findIndex((word) => /^(?:by|for|from|in|with|via)$/.test(word))
    const nouns = (end < 0 ? named : named.slice(0, end)).filter((word) => word !== verb)
    const isClosed = hasAny(nouns, closed) && !hasAny(nouns, written)
    const isKept = hasAny(nouns, kept) && !hasAny(nouns, written)
    if (isKept) held.add('directory').add('private')
    else if (!isClosed) held.add('untrusted')
    if (hasAny(objects, personal)) held.add('private')
    if (
      (hasAny(verbs, fetching) || hasAny(nouns, fetching)) &&
      args.some((arg) => /^(?:url|uri|link|address)s?$/i.test(arg))
    ) {
      held.add('untrusted').add('sends').add('fetches')
    }
  } else {
    if (hasAny(verbs, sending)) held.add('sends').add('changes')
    if (hasAny(verbs, changing)) held.add('changes')
    if (hasAny(verbs, undoing)) held.add('changes').add('irreversible')
    const nouns = named.filter((word) => word !== verb)
    if (held.has('changes') && hasAny(nouns, money)) held.add('sends').add('irreversible')
    if (hasAny(verbs, admitting) && hasAny(nouns, people)) held.add('sends')
    if (held.has('changes') && hasAny(nouns, guarding)) held.add('irreversible')
    // Nobody reads a draft.
    if (hasAny(verbs, creating) && hasAny(nouns, published) && !nouns.includes('draft')) held.add('sends')
    if (hasAny(verbs, executing)) held.add('untrusted')
  }
  if (annotations?.destructiveHint === true) held.add('irreversible').add('changes')
  if (!isKnownVerb(verbs) && held.size === 0) {
    if (annotations?.readOnlyHint !== true) return { ...unknownTool, destination: args.filter(isDirecting) }
    held.add('untrusted')
  }
  // Others hear of it when people are added.
  const when: Record<string, Label[]> = {}
  if (!isReading) {
    for (const arg of args) {
      if (/^(?:participants?|attendees?|invitees?|recipients?|cc|bcc|share_?with|emails?)$/i.test(arg))
        when[arg] = ['sends']
    }
  }
  const destination = isReading && !held.has('fetches') ? [] : args.filter(isDirecting)
  return { is: [...held], destination, when }
}
