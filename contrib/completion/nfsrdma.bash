# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completion for bash: nfsrdma, mount.nfsrdma, nfsrdma-probe, nfsrdma-stat, nfsrdma-exportd. What the programs can do is asked
# of their --help, so that nothing is said twice.

# The switches of a program, one a line.
_nfsrdma_switches()
{
	"$1" --help 2>/dev/null | grep -oE -- '(^|[[ ,])--?[a-zA-Z][a-z-]*' | grep -oE -- '--?[a-zA-Z].*' | sort -u
}

# Mount options, those with a value as "name=".
_nfsrdma_options()
{
	"$1" --help 2>/dev/null | sed -n '/^Mount options/,$s/^  \([a-z_]*=\{0,1\}\).*/\1/p'
}

# The values of a mount option that has a few.
_nfsrdma_values()
{
	"$1" --help 2>/dev/null | sed -n "/^Mount options/,\$s/^  $2=\([a-z0-9|]*\).*/\1/p" | tr '|' '\n'
}

# After -o: the last of the options that are separated by commas.
_nfsrdma_list()
{
	local program=$1 word=$2 before='' name
	case $word in *,*) before=${word%,*}, ;; esac
	word=${word##*,}
	case $word in
	*=*)
		name=${word%%=*}
		mapfile -t COMPREPLY < <(compgen -P "$before$name=" -W "$(_nfsrdma_values "$program" "$name")" -- "${word#*=}")
		;;
	*)
		mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_nfsrdma_options "$program")" -- "$word")
		case ${COMPREPLY[0]-} in *=) compopt -o nospace ;; esac
		;;
	esac
}

# The mount points of nfsrdma.
_nfsrdma_mounts()
{
	sed -n 's/^[^ ]* \([^ ]*\) fuse\.nfsrdma .*/\1/p' /proc/self/mounts
}

# The word that is completed, and the one before it, whole: readline breaks words at '=' and ':'.
_nfsrdma_words()
{
	local line=${COMP_LINE:0:COMP_POINT}
	cur=${line##* }
	line=${line% *}
	prev=${line##* }
}

_nfsrdma()
{
	local cur prev program=nfsrdma i
	_nfsrdma_words
	COMPREPLY=()
	case ${COMP_WORDS[0]##*/} in
	nfsrdma-*) program=${COMP_WORDS[0]} ;;
	esac
	if [ "$prev" = -o ]; then
		_nfsrdma_list nfsrdma "$cur"
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_nfsrdma_switches "$program")" -- "$cur")
	else
		case ${program##*/},$prev in
		nfsrdma-stat,--file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		nfsrdma-stat,*) mapfile -t COMPREPLY < <(compgen -W "$(_nfsrdma_mounts)" -- "$cur") ;;
		nfsrdma-exportd,--device) mapfile -t COMPREPLY < <(compgen -W "softiwarp verbs none" -- "$cur") ;;
		nfsrdma-exportd,* | nfsrdma,*) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
		esac
	fi
	# readline replaces what follows the last break only.
	local kept=${cur%"${cur##*[=:]}"}
	for i in "${!COMPREPLY[@]}"; do
		COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
	done
}

complete -F _nfsrdma nfsrdma mount.nfsrdma nfsrdma-probe nfsrdma-stat nfsrdma-exportd
