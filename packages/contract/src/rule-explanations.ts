import type { Static } from 'typebox'
import { access, define } from './endpoint.ts'
import { EventRow } from './events.ts'
import { Count, Digits, limits, nullable, Uuid } from './fields.ts'
import { RuleException, ruleLimits } from './rules.ts'
import { RuleParams, RuleVersion } from './stored-rules.ts'
import { Type } from './type.ts'

const RuleMatch = Type.Object({
  selection: Type.String({ description: 'Selection of the rule that matched' }),
  field: nullable(Type.String({ description: 'Field as the rule names it; null = any text, for a keyword' })),
  value: nullable(
    Type.String({
      description: 'Value that matched, of a long one what surrounds the part; null = the event has none',
    }),
  ),
  start: { ...Count, description: 'First character of the part of `value` that matched, from 0, in UTF-16 units' },
  end: { ...Count, description: 'Character after that part' },
})
export type RuleMatch = Static<typeof RuleMatch>

const RuleExplanation = Type.Object({
  rules: Type.Array(
    Type.Object({
      id: Uuid,
      title: Type.String(),
      version: { ...RuleVersion, description: 'Version that fired' },
      events: Type.Array(
        Type.Object({
          event: EventRow,
          matches: Type.Array(RuleMatch, {
            description: 'Empty if no condition is true for it now, such as one about tags that were changed since',
          }),
        }),
        {
          maxItems: ruleLimits.explainedEvents,
          description: `The newest ${ruleLimits.explainedEvents} events of the firing, or the event alone; oldest first`,
        },
      ),
    }),
    { description: 'Rules that fired, with the events that they matched' },
  ),
})
export type RuleExplanation = Static<typeof RuleExplanation>

const ExceptionBody = Type.Object(
  {
    exception: Type.Optional({
      ...RuleException,
      description: 'Agents by id or tag, with a reason and an end: for `exceptions` of the rule',
    }),
    filter: Type.Optional(
      Type.Object(
        {
          selection: Type.String({
            minLength: 1,
            maxLength: limits.name,
            description: 'Conditions with this selection get `and not` the filter',
          }),
          fields: Type.Record(Type.String({ maxLength: 200 }), Type.String({ maxLength: ruleLimits.valueLength }), {
            minProperties: 1,
            maxProperties: 5,
            description: 'Fields and the values that all must have, each the whole value',
          }),
        },
        { additionalProperties: false, description: 'A selection of events that the rule no longer matches' },
      ),
    ),
  },
  { additionalProperties: false },
)
export type ExceptionBody = Static<typeof ExceptionBody>

export const ruleExplanationEndpoints = {
  explainEvent: define({
    method: 'GET',
    path: '/api/rule-matches',
    access: access.readers,
    teams: 'agents',
    feature: 'rules',
    summary:
      'Show what of an event the conditions of rules matched: of the rules that it completed, of `rule`, or of a rule_matched event',
    query: Type.Object(
      {
        event: Digits('seq of the event'),
        rule: Type.Optional({ ...Uuid, description: 'This rule alone, also if the event did not complete its firing' }),
      },
      { additionalProperties: false },
    ),
    status: 200,
    reply: RuleExplanation,
    failures: { 404: 'Unknown event' },
  }),
  draftException: define({
    method: 'POST',
    path: '/api/rules/:id/exception',
    access: access.operators,
    teams: 'refused',
    feature: 'rules',
    summary: 'Write an exception into the text of a rule; nothing is stored: replace the rule by the text',
    params: RuleParams,
    body: ExceptionBody,
    status: 200,
    reply: Type.Object({
      version: { ...RuleVersion, description: 'Version to which the exception was added' },
      before: Type.String({ description: 'Text of that version' }),
      text: Type.String({ description: 'The same text with the exception' }),
    }),
    failures: { 400: 'The exception cannot be written into this rule; the sentence says why', 404: 'Unknown rule' },
  }),
}
