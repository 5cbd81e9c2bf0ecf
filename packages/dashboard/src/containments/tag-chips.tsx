import { Chip } from '../ui/button.tsx'
import { FieldGroup, SelectField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { plainText } from '../ui/unseen-characters.ts'

/** Above this many tags, typing a name is faster than searching a list. */
const maxListed = 30

interface TagChipsProps {
  counts: readonly (readonly [tag: string, count: number])[]
  chosen: readonly string[]
  onChoose(tags: string[]): void
}

/** Tags to choose from. Agents must have all chosen tags. */
export function TagChips({ counts, chosen, onChoose }: TagChipsProps) {
  if (counts.length === 0) return <p className="quiet">No agent has a tag.</p>
  const listed = counts.slice(0, maxListed).map(([tag]) => tag)
  const others = counts.slice(maxListed, 500).map(([tag]) => [tag, plainText(tag)] as const)
  return (
    <FieldGroup label="Agents with all of these tags">
      <div className="chips">
        {[...new Set([...listed, ...chosen])].map((tag) => (
          <Chip
            key={tag}
            isOn={chosen.includes(tag)}
            count={counts.find(([one]) => one === tag)?.[1] ?? 0}
            onClick={() => onChoose(chosen.includes(tag) ? chosen.filter((one) => one !== tag) : [...chosen, tag])}
          >
            <HostileText text={tag} line max={40} />
          </Chip>
        ))}
      </div>
      {others.length > 0 && (
        <SelectField
          label="Another tag"
          value=""
          options={[['', `${counts.length - maxListed} more`], ...others]}
          onChange={({ target }) => target.value && onChoose([...chosen, target.value])}
        />
      )}
    </FieldGroup>
  )
}
