"""The paper, in order: selector, tokens, weaver, diagnoser, converger, summary; `pipeline` knows the order."""
